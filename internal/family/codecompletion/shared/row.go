// Package shared scores Python code whose tests need to be in one process with it:
// tests that subclass the candidate's classes, patch its names, or pass objects of
// their own.
//
// The tests are run by the driver of pytest in package testrunner, hardened as it is
// for repositories: a report on a descriptor of its own under a fresh key, canaries
// that must fail, and each test of the row by its name. That makes it hard, not
// impossible, for the candidate to be taken for right. Verdicts have the containment
// shared.
package shared

import (
	_ "embed" // the programs
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/task"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
)

// Form is the value of eval.tests.containment in rows of this kind.
const Form = "shared"

//go:embed listing.py
var listingSource string

//go:embed securebench_row.py
var loaderSource []byte

// onlyTest is the test of a file whose tests are a plain program.
const onlyTest = "test_row"

// row is what a verification needs of a task.
type row struct{ prompt, tests string }

// layout is how the tests of an attempt are laid out.
type layout struct {
	file string   // of the tests, below [programs.TestsRoot]; its name is fresh
	ids  []string // tests in the file; none means that the tests are a plain program
}

// testsObject is the row's tests. The family's schema has checked its shape.
type testsObject struct {
	Source string `json:"source"`
	Code   string `json:"code"`
}

func read(v task.SandboxView) (row, *family.Failure) {
	tests, _ := v.Get("tests")
	var t testsObject
	if json.Unmarshal(tests.Value, &t) != nil || t.Source != "inline" {
		return row{}, family.Fail(verdict.NoVerifier, "the row's tests are not of a known form")
	}
	if language, ok := v.Get("language"); ok {
		if name, _ := language.Text(); name != programs.Python {
			return row{}, family.Fail(verdict.NoVerifier, "shared tests of languages other than python have no verifier")
		}
	}
	out := row{tests: t.Code}
	prompt, _ := v.Get("prompt")
	out.prompt, _ = prompt.Text()
	return out, nil
}

// Refusal says why a row cannot be scored; nil means that it can be.
func Refusal(v task.SandboxView) *family.Failure {
	_, f := read(v)
	return f
}

// runnerTests is the run of the row's tests.
func (r row) runnerTests(l layout) testrunner.Tests {
	t := testrunner.Outside(programs.TestsRoot, path.Join(programs.TestsRoot, l.file), programs.Root)
	t.Env = environment()
	t.TestFiles = []string{l.file}
	t.Functions = testrunner.Functions([]byte(r.tests))
	ids := l.ids
	if len(ids) == 0 {
		ids = []string{onlyTest}
	}
	for _, id := range ids {
		t.FailToPass = append(t.FailToPass, l.file+"::"+id)
	}
	return t
}

// environment is that of all commands: nothing of the candidate's is loaded when
// Python starts, and sets have the same order every time.
func environment() []string {
	return []string{"PYTHONSAFEPATH=1", "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0"}
}

var (
	word = regexp.MustCompile(`[\p{L}_][\p{L}\p{M}\p{N}_]*`)
	// future is a statement that must be the first of a file.
	future = regexp.MustCompile(`(?m)^from[ \t]+__future__[ \t]+import[ \t]+(?:\([^)]*\)|[^\n(]*)[ \t]*(?:#[^\n]*)?$`)
)

// mentioned lists the names that the tests mention, as a list in Python. Of the
// candidate, the tests get these alone: pytest would take other functions and
// classes of the candidate's for tests.
func (r row) mentioned() string {
	found := word.FindAllString(r.tests, -1)
	slices.Sort(found)
	return `["` + strings.Join(slices.Compact(found), `", "`) + `"]`
}

// files are the files of the tests and the canaries, by name.
func (r row) files(l layout, canaries map[string][]byte) (out []programs.File) {
	contents := map[string][]byte{"securebench_row.py": loaderSource, "prompt.txt": []byte(r.prompt)}
	if len(l.ids) > 0 {
		contents[l.file] = []byte(r.testModule())
	} else {
		contents["tests.txt"] = []byte(r.tests)
		contents[l.file] = fmt.Appendf(nil, "import securebench_row\n\n\ndef %s():\n    securebench_row.run(%s)\n", onlyTest, r.mentioned())
	}
	names := make([]string, 0, len(contents)+len(canaries))
	for name, text := range canaries {
		contents[name] = text
	}
	for name := range contents {
		names = append(names, name)
	}
	slices.Sort(names) // no date tells canaries from tests
	for _, name := range names {
		out = append(out, programs.File{Path: name, Mode: 0o444, Data: contents[name]})
	}
	return out
}

// testModule is the tests, with the candidate's names in front.
func (r row) testModule() string {
	head := "import securebench_row; globals().update(securebench_row.names(" + r.mentioned() + "))\n"
	at := 0
	if found := future.FindAllStringIndex(r.tests, -1); found != nil {
		at = found[len(found)-1][1]
		head = "\n" + head
	}
	return r.tests[:at] + head + r.tests[at:]
}
