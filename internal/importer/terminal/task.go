package terminal

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/pathname"
	"securebench/internal/workspace"
)

// task is a task of any format.
type task struct {
	name         string
	instruction  string
	metadata     map[string]any
	workdir      string
	env          map[string]string
	user         string
	agentSeconds float64 // 0 is not known
	testSeconds  float64
	// The image of the agent's sandbox: a recipe, or a name.
	recipe  *recipe
	image   string
	checker checker
	// solution are the files of the reference solution; run is the script.
	solution     folder
	tests        folder
	roots        []string // captured beside the workspace, absolute
	exclude      []string
	filesystem   bool
	capabilities []string
	start        *start
	separate     bool // the verifier gets the roots alone
	live         bool // the tests need what the agent started
	offline      bool // the solution is known to need no network
}

// recipe is what an image is built from.
type recipe struct {
	dockerfile string
	context    folder
	base       string // a recipe that other tasks share, above the Dockerfile; "" is none
}

// A checker says how a task's tests run.
type checker struct {
	pytest string   // the tests' file, relative to the tests; "" is a script
	dir    string   // where pytest is started; "" is the working folder
	script string   // the script, relative to the tests
	reward string   // where the script writes its reward
	apt    []string // packages that the tests need beside pytest
	pip    []string
	own    string            // a Dockerfile of an image for the checker alone, or its name
	env    map[string]string // of the checker
	// pathed are tests that refer to their own place in the data set, /tests.
	pathed bool
	// writes are tests that change their own folder, and modules those that start
	// Python so that it imports what the task's author says is made.
	writes, modules bool
	// bare is set if the image of the task has pytest.
	bare bool
}

// testsDir is where the tests of all formats are.
const testsDir = "/tests"

// check leaves out what cannot be run as it was meant.
func (t *task) check() error {
	switch {
	case strings.TrimSpace(t.instruction) == "":
		return leave("it has no instruction")
	case len(t.tests) == 0:
		return leave("it has no tests")
	case !path.IsAbs(t.workdir) || path.Clean(t.workdir) == "/":
		return leave("its working folder is not known: the Dockerfile has no WORKDIR")
	case len(t.checker.env) > 0:
		return leave("its tests need variables of their own, %s", strings.Join(slices.Sorted(maps.Keys(t.checker.env)), ", "))
	}
	t.workdir = path.Clean(t.workdir)
	if fault := workspace.TargetFault(t.workdir); fault != "" {
		return leave("its working folder %s %s", t.workdir, fault)
	}
	if t.checker.dir != "" && path.Clean(t.checker.dir) != t.workdir {
		return leave("its tests are started in %s", t.checker.dir)
	}
	for _, test := range t.tests {
		for p := range pathsIn(string(test.data)) {
			t.checker.pathed = t.checker.pathed || strings.HasPrefix(p, testsDir+"/")
		}
	}
	t.checker.writes, t.checker.modules = t.writesTests(), t.startsModules()
	if line, ok := downloads(t.solution.scripts()); ok && !t.offline {
		return leave("its solution downloads what the image lacks: %s", line)
	}
	if t.live && t.start == nil {
		return leave("its tests need processes that the agent started, or talk to a server on this machine: say what is started, with --start FILE")
	}
	return nil
}

// scripts returns the shell scripts of a folder as one text.
func (f folder) scripts() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if strings.HasSuffix(name, ".sh") {
			b.Write(f[name].data)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// absolutePath matches paths in a text that are not parts of a URL or of another
// path.
var absolutePath = lazyregexp.New(`(?:^|[^A-Za-z0-9_./~:-])(/[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*)`)

func pathsIn(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range absolutePath.FindAllStringSubmatch(text, -1) {
		out[path.Clean(strings.TrimRight(m[1], "."))] = true
	}
	return out
}

// findRoots names what a task changes outside of its workspace: paths that the
// tests look at, that the instruction or the solution speaks of, and that are
// not a word with a slash before it. Folders of programs are the image's.
func (t *task) findRoots() {
	var tests strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.tests)) {
		tests.Write(t.tests[name].data)
	}
	known := pathsIn(t.instruction)
	maps.Copy(known, pathsIn(t.solution.scripts()))
	made := map[string]bool{}
	if t.recipe != nil {
		made = pathsIn(t.recipe.dockerfile)
	}
	for p := range pathsIn(tests.String()) {
		first, rest, _ := strings.Cut(p[1:], "/")
		switch {
		case !known[p], pathname.Overlap(p, t.workdir), rest == "" && !made[p], strings.HasPrefix(first, "lib"),
			slices.Contains([]string{"bin", "sbin", "usr", "dev", "proc", "sys", "tests", "logs", "oracle", "solution"}, first):
		default:
			t.roots = append(t.roots, p)
		}
	}
	slices.Sort(t.roots)
}

// ownServer matches what tests write to reach a server on this machine, and
// starts what starts one.
var (
	ownServer = lazyregexp.New(`(?:https?|wss?|redis|postgres(?:ql)?|mysql|mongodb)://[^\s/'"]*(?:localhost|127\.0\.0\.1|0\.0\.0\.0)|@localhost[:/]|\(\(?["'](?:localhost|127\.0\.0\.1)["'],`)
	starts    = lazyregexp.New(`\bPopen\(|create_subprocess_|\bThread\(|\bProcess\(`)
)

// needsServer reports whether the tests talk to a server that they do not start.
func (t *task) needsServer() bool {
	var tests strings.Builder
	for _, test := range t.tests {
		tests.Write(test.data)
	}
	return ownServer.MatchString(tests.String()) && !starts.MatchString(tests.String())
}

// importsWorkspace reports whether the tests import a module that lies in the
// working folder: the data set's command starts Python there.
func (t *task) importsWorkspace(files folder) bool {
	for name, test := range t.tests {
		if !strings.HasSuffix(name, ".py") {
			continue
		}
		for _, m := range importLine.FindAllStringSubmatch(string(test.data), -1) {
			for file := range files {
				first, rest, _ := strings.Cut(file, "/")
				if first == m[1]+".py" && rest == "" || first == m[1] && strings.HasSuffix(rest, ".py") {
					return true
				}
			}
		}
	}
	return false
}

var importLine = lazyregexp.New(`(?m)^[ \t]*(?:from|import)[ \t]+(\w+)`)

// addWorkspace lets the tests import modules of the workspace: last of all
// places, so that none of them takes the place of another.
func (t *task) addWorkspace() {
	const name = "conftest.py"
	text := fmt.Sprintf("import sys\n\nsys.path.append(%q)  # the command of the data set has it in first place\n", t.workdir)
	t.tests[name] = file{data: append([]byte(text), t.tests[name].data...)}
}

// What tests write that build in their own folder, or put something there.
var (
	entersTests = lazyregexp.New(`(?:\bcd\s+|\bpushd\s+|chdir\(|cwd\s*=\s*)["']?(?:/tests\b|\$\{?TEST_DIR\b)`)
	builds      = lazyregexp.New(`\bsetup\.py\b|\b(?:cythonize|make|cmake|gcc|g\+\+|cc|clang|rustc|cargo|javac|tsc|npm|go build)\b|\bmkdir\b|\btouch\b|\bcp\s`)
	intoTests   = lazyregexp.New(`(?:>\s*|\s-o\s+|\s-C\s*|\bmkdir\s+(?:-p\s+)?|\btouch\s+)["']?(?:/tests/|\$\{?TEST_DIR\}?["']?/)`)
)

// writesTests reports whether the tests write to the folder that they are in.
func (t *task) writesTests() bool {
	for name, test := range t.tests {
		text := string(test.data)
		if t.checker.script == "" && strings.HasSuffix(name, ".sh") {
			continue // pytest is started instead
		}
		if intoTests.MatchString(text) || entersTests.MatchString(text) && builds.MatchString(text) {
			return true
		}
	}
	return false
}

// startedModule matches a module that tests have Python start, or import in a line of
// code.
var startedModule = lazyregexp.New(`(?:\bpython[0-9.]*|\bsys\.executable)["']?[\s,]+["']?-(?:m["']?[\s,]+["']?(\w+)|c["']?[\s,]+[fr]?["']+[^\n]*?\b(?:import|from)\s+(\w+))`)

// startsModules reports whether the tests have Python find a module that the
// instruction or the solution speaks of as a file or folder.
func (t *task) startsModules() bool {
	known := t.instruction + "\n" + t.solution.scripts()
	for _, test := range t.tests {
		for _, m := range startedModule.FindAllStringSubmatch(string(test.data), -1) {
			name := m[1] + m[2]
			if strings.Contains(known, name+".py") || strings.Contains(known, name+"/") {
				return true
			}
		}
	}
	return false
}

// seconds rounds nothing: it is the number that a data set gives, or a default.
func seconds(given *float64, other float64) float64 {
	if given == nil {
		return other
	}
	return cmp.Or(*given, other)
}
