package importer

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
)

//go:embed licences/quixbugs.txt
var quixBugsLicence string

// The files of QuixBugs that every program's tests need.
//
//go:embed quixbugs
var quixBugsFiles embed.FS

// quixBugsCommon lists them.
func quixBugsCommon() []string {
	return []string{"conftest.py", "python_programs/node.py", "python_testcases/load_testdata.py", "python_testcases/node.py"}
}

// quixBugsTimeout is generous for programs that take milliseconds: some never
// end while they have their bug.
const quixBugsTimeout = 60

func quixBugs() dataset {
	common := map[string]string{}
	for _, name := range quixBugsCommon() {
		text, err := quixBugsFiles.ReadFile("quixbugs/" + name + ".txt")
		if err != nil {
			panic(err) // it is part of the binary
		}
		common[name] = string(text)
	}
	return dataset{
		format:   QuixBugs,
		family:   "repo_patch",
		exercise: convertQuixBugs,
		recipes:  map[string]recipe{"programs": {base: "FROM securebench-pytest:1\n", common: common}},
		licence:  quixBugsLicence,
		about: `# QuixBugs (Python)

Rows of QuixBugs, from the repository jkoppel/QuixBugs. Derrick Lin and others,
"QuixBugs: A Multi-Lingual Program Repair Benchmark Set Based on the Quixey
Challenge" (2017), https://doi.org/10.1145/3135932.3135941

Licence: MIT (LICENSE).
`,
		changes: "- All programs are in one repository of one commit, without the corrected ones. The data set publishes no id for it.\n" +
			"- `instructions` are ours: the data set has none.\n" +
			"- The tests of a program are its `test_patch`, and its test cases are listed by name, each as one that must pass. " +
			"Those that the data set itself skips are listed as such. Some of them also pass with the bug.\n" +
			"- `gold_patch` is as published; it also removes the comment that describes the program.\n",
	}
}

var programName = lazyregexp.New(`^[a-z][a-z0-9_]*$`)

func convertQuixBugs(o *object) exercise {
	o.only("instance_id", "program", "buggy_path", "buggy_source", "fixed_source", "gold_patch", "tests", "slow_or_infinite_when_buggy")
	id, program := o.text("instance_id"), o.text("program")
	if len(o.problems) == 0 && (!programName.MatchString(program) || id != "quixbugs__"+program) {
		o.fail(o.node.Get("program"), "program must be a Python identifier, and instance_id quixbugs__ and the program")
	}
	file := "python_programs/" + program + ".py"
	if path := o.text("buggy_path"); path != file && len(o.problems) == 0 {
		o.fail(o.node.Get("buggy_path"), "buggy_path must be %s", file)
	}
	buggy, fixed, gold, tests := o.text("buggy_source"), o.text("fixed_source"), o.text("gold_patch"), o.fileTexts("tests")
	if len(o.problems) == 0 && buggy == fixed {
		o.fail(o.node.Get("fixed_source"), "fixed_source is buggy_source")
	}
	script := "python_testcases/test_" + program + ".py"
	run, skipped := []string(nil), map[string]string(nil)
	if len(o.problems) == 0 {
		var err error
		if run, skipped, err = quixBugsTests(script, tests[script], tests["json_testcases/"+program+".json"]); err != nil {
			o.fail(o.node.Get("tests"), "%v", err)
		}
	}
	t := repoTests{Source: "command", Command: []string{"python3", "-m", "pytest", script}, Runner: "pytest", Timeout: quixBugsTimeout,
		FailToPass: run, PassToPass: slices.Sorted(maps.Keys(skipped)), Expected: skipped, TestPatch: newFiles(tests),
		Policy: repoPolicy{OnDenied: "drop", Preserved: quixBugsCommon()}}
	return exercise{
		row: row{
			ID: id,
			Input: repoInput{Instructions: fmt.Sprintf("The program `%[1]s` has a bug: one line of it is wrong or missing. "+
				"Find and correct it, so that `%[2]s` does what the comment at the end of the file says, if there is one, for every valid input. "+
				"Change no other file, and keep the name and the parameters of `%[2]s`.", file, program)},
			Eval:     repoEval{t, gold},
			Metadata: map[string]any{"dataset": "QuixBugs", "program": program},
		},
		image: "programs",
		files: map[string]string{file: buggy},
	}
}

// testFunction matches a test of a file, and what is on the line before it.
var testFunction = lazyregexp.New(`(?m)^(.*)\ndef (test\w*)\(`)

// quixBugsTests returns the ids of the tests of a file, and those that the file
// skips.
func quixBugsTests(script, code, cases string) (run []string, skipped map[string]string, err error) {
	found := testFunction.FindAllStringSubmatch("\n"+code, -1)
	if len(found) == 0 {
		return nil, nil, fmt.Errorf("%s has no tests", script)
	}
	for _, m := range found {
		id := script + "::" + m[2]
		switch {
		case !strings.HasPrefix(m[1], "@"):
			run = append(run, id)
		case m[1] == `@pytest.mark.parametrize("input_data,expected", testdata)`:
			ids, skips, err := caseIDs(code, cases)
			if err != nil {
				return nil, nil, err
			}
			for i, c := range ids {
				if !skips[i] {
					run = append(run, id+c)
					continue
				}
				if skipped == nil {
					skipped = map[string]string{}
				}
				skipped[id+c] = "skipped"
			}
		default:
			return nil, nil, fmt.Errorf("%s has the decorator %s, which is not known", script, m[1])
		}
	}
	return run, skipped, nil
}

// skipCase matches the input of a case that a test skips.
var skipCase = lazyregexp.New(`(?s)input_data == (\[.*?\n    \]):\n        pytest\.skip\(`)

// caseIDs returns what pytest calls the cases of a file, one JSON list of input
// and expected value a line, and which of them the code skips.
func caseIDs(code, cases string) (ids []string, skips map[int]bool, err error) {
	skip := skipCase.FindStringSubmatch(code)
	if strings.Count(code, "pytest.skip(") != min(len(skip), 1) {
		return nil, nil, fmt.Errorf("it is not clear which cases the tests skip")
	}
	skips = map[int]bool{}
	for line := range strings.Lines(cases) {
		c, err := parseCase(line)
		if err != nil {
			return nil, nil, err
		}
		i := len(ids)
		ids = append(ids, fmt.Sprintf("[%s-%s]", paramID("input_data", i, c.Items[0]), paramID("expected", i, c.Items[1])))
		skips[i] = skip != nil && squeezed(skip[1]) == squeezed(string(c.Items[0].JSON()))
	}
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			return nil, nil, fmt.Errorf("two test cases have the id %s", id)
		}
		seen[id] = true
	}
	if len(ids) == 0 {
		return nil, nil, fmt.Errorf("there are no test cases")
	}
	return ids, skips, nil
}

// squeezed drops what may differ between a Python list and the same as JSON.
func squeezed(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), ""), ",]", "]")
}
