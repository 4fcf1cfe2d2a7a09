package importer

import (
	"cmp"
	_ "embed"
	"fmt"
	"go/build/constraint"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
	"securebench/internal/source"
)

//go:embed licences/exercism.txt
var exercismLicence string

// exercismTimeout is generous for tests that take seconds, compilation
// included.
const exercismTimeout = 180

func exercism() dataset {
	golang := map[string]string{"CGO_ENABLED": "0", "GOCACHE": "/tmp/go-build", "GOFLAGS": "", "GOPROXY": "off", "GOTOOLCHAIN": "local", "HOME": "/tmp"}
	return dataset{
		format:   Exercism,
		family:   "repo_patch",
		exercise: convertExercism,
		recipes: map[string]recipe{
			"python": {base: "FROM securebench-pytest:1\n"},
			"go":     {base: debianWith("git", "golang-go"), env: golang, complete: workspaceFile},
		},
		licence: exercismLicence,
		about: `# Exercism exercises (Python, Go)

Exercises of Exercism's tracks as Aider's polyglot benchmark selects them, from
the repository Aider-AI/polyglot-benchmark. https://exercism.org

Licence: MIT (LICENSE). Each row's metadata names the authors and the source of
the exercise.
`,
		changes: "- All exercises of a language are in one repository of one commit, each in its own folder, with their starter files and without tests and solutions. " +
			"The data set publishes no id for it. For Go, it has a file `go.work`.\n" +
			"- The tests are `test_patch`. They are listed by name, as the source defines them, each as one that must pass; some may also pass with the starter files. " +
			"Of Go's tests the functions are listed, without their parts.\n" +
			"- `gold_patch` replaces the solution file by the reference solution.\n",
	}
}

// debianWith is the start of a recipe: Debian and packages of it.
func debianWith(packages ...string) string {
	return "FROM debian:bookworm-slim\nRUN apt-get update -qq \\\n && apt-get install -y -qq --no-install-recommends " +
		strings.Join(packages, " ") + " \\\n && rm -rf /var/lib/apt/lists/*\n"
}

// workspaceFile adds the file that makes one workspace of all Go modules.
func workspaceFile(files map[string]string) {
	text := "go 1.18\n\nuse (\n"
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == "go.mod" {
			text += "\t./" + path.Dir(name) + "\n"
		}
	}
	files["go.work"] = text + ")\n"
}

// language is what the import knows of a language of Exercism.
type language struct {
	suffix  string // of a test file
	runner  string
	command func(tests []string) []string
	ids     func(file, code string) []string
	// excluded says why no build here has a test file, "" if one has; nil excludes none.
	excluded func(file, code string) string
}

func languages() map[string]language {
	return map[string]language{
		"python": {"_test.py", "pytest", func(tests []string) []string { return append([]string{"python3", "-m", "pytest"}, tests...) }, unittestIDs, nil},
		"go":     {"_test.go", "go", func(tests []string) []string { return []string{"go", "test", "-json", "./" + path.Dir(tests[0])} }, goTestIDs, goExcluded},
	}
}

var exerciseName = lazyregexp.New(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

func convertExercism(o *object) exercise {
	o.only("instance_id", "language", "exercise", "blurb", "source", "source_url", "authors", "instructions",
		"solution_files", "starter_files", "tests", "reference_solution")
	id, name, language := o.text("instance_id"), o.text("exercise"), o.text("language")
	instructions, blurb, solutions := o.text("instructions"), o.text("blurb"), o.texts("solution_files")
	starter, tests, reference := o.fileTexts("starter_files"), o.fileTexts("tests"), o.otherTexts("reference_solution")
	metadata := map[string]any{"dataset": "Exercism", "language": language, "exercise": name, "blurb": blurb}
	for _, key := range []string{"source", "source_url", "authors"} {
		if n := o.get(key); n != nil && n.Kind != source.Null {
			metadata[key] = n.Any()
		}
	}
	l, known := languages()[language]
	if len(o.problems) > 0 {
		return exercise{}
	}
	if !exerciseName.MatchString(name) || id != "exercism-"+language+"/"+name {
		o.fail(o.node, "instance_id must be exercism-LANGUAGE/EXERCISE")
		return exercise{}
	}
	out := exercise{row: row{ID: id}}
	// Some starters have more files than the solution changes.
	switch {
	case !known:
		out.left = "its language is " + redact.Quote(language) + ", and Python and Go can be imported"
	case len(solutions) != 1 || len(reference) != 1:
		out.left = fmt.Sprintf("it has %d solution files and %d reference solutions, and one of each can be imported", len(solutions), len(reference))
	case starter[solutions[0]] == "":
		out.left = "its solution file " + redact.Quote(solutions[0]) + " has no starter"
	}
	if out.left != "" {
		return out
	}
	t := repoTests{Source: "command", Runner: l.runner, Timeout: exercismTimeout, TestPatch: newFiles(below(name, tests)),
		Policy: repoPolicy{OnDenied: "drop"}}
	var scripts []string
	if scripts, t.FailToPass, out.left = l.tests(below(name, tests)); out.left != "" {
		return out
	}
	t.Command = l.command(scripts)
	file, solution := path.Join(name, solutions[0]), ""
	for _, solution = range reference { // it is one
		break
	}
	out.Input = repoInput{Instructions: fmt.Sprintf("%s\n\nWrite your solution into `%s`, which has a start of it. Keep the names and parameters that are there. "+
		"Only the standard library is available.\n", strings.TrimSpace(instructions), file)}
	out.Eval, out.Metadata = repoEval{t, replacement(file, starter[solutions[0]], solution)}, metadata
	out.image, out.files = language, below(name, starter)
	return out
}

// tests returns the test files among files and the names of their tests, both sorted,
// or why they cannot be used.
func (l language) tests(files map[string]string) (scripts, ids []string, left string) {
	never := ""
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(file, l.suffix) {
			continue
		}
		scripts = append(scripts, file)
		if l.excluded != nil {
			if why := l.excluded(file, files[file]); why != "" {
				never = cmp.Or(never, why)
				continue
			}
		}
		ids = append(ids, l.ids(file, files[file])...)
	}
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			return nil, nil, "two of its tests have the name " + redact.Quote(ids[i])
		}
	}
	switch {
	case len(ids) > 0:
		return scripts, ids, ""
	case never != "":
		return nil, nil, never
	}
	return nil, nil, "no test was found in its files " + redact.Quote(strings.Join(slices.Sorted(maps.Keys(files)), ", "))
}

// below returns files with a folder before their paths.
func below(dir string, files map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		out[path.Join(dir, name)] = text
	}
	return out
}

var (
	testClass  = lazyregexp.New(`^class (\w+)\((?:unittest\.)?TestCase\):`)
	testMethod = lazyregexp.New(`^    def (test\w*)\(`)
	goTest     = lazyregexp.New(`(?m)^func (Test(?:[^a-z\W]\w*)?)\(\w+ \*testing\.T\)`)
)

// unittestIDs returns pytest's ids of the tests in a file of unittest classes.
func unittestIDs(file, code string) (ids []string) {
	class := ""
	for line := range strings.Lines(code) {
		if m := testClass.FindStringSubmatch(line); m != nil {
			class = m[1]
		} else if line != "" && line[0] != ' ' && line[0] != '\n' && line[0] != '#' {
			class = ""
		}
		if m := testMethod.FindStringSubmatch(line); m != nil && class != "" {
			ids = append(ids, file+"::"+class+"::"+m[1])
		}
	}
	return ids
}

// goTestIDs returns the names of the tests in a Go file.
func goTestIDs(_, code string) (ids []string) {
	for _, m := range goTest.FindAllStringSubmatch(code, -1) {
		if m[1] != "TestMain" {
			ids = append(ids, m[1])
		}
	}
	return ids
}

// goMinor is the minor version of the Go of the recipe.
const goMinor = 19

// goExcluded returns the build constraint by which no build here has a Go file, in
// words. Constraints on the architecture hold on some machines only, and count as
// such.
func goExcluded(file, code string) string {
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "package ") {
			return ""
		}
		if !constraint.IsGoBuild(line) {
			continue
		}
		expr, err := constraint.Parse(line)
		if err == nil && expr.Eval(goTag) {
			return ""
		}
		return fmt.Sprintf("its tests in %s have the build constraint %s, with which no build here has them", redact.Quote(path.Base(file)), redact.Quote(line))
	}
	return ""
}

// goTag reports whether a build of the recipe's Go has a tag.
func goTag(tag string) bool {
	version, isVersion := strings.CutPrefix(tag, "go1.")
	minor, err := strconv.Atoi(version)
	return slices.Contains([]string{"linux", "unix", "gc"}, tag) || isVersion && err == nil && minor <= goMinor
}
