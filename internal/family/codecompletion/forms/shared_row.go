package forms

import (
	_ "embed" // the programs
	"fmt"
	"path"
	"slices"
	"strings"

	"securebench/internal/family"
	"securebench/internal/lazyregexp"
	"securebench/internal/task"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
)

// sharedForm is the value of eval.tests.containment in rows of this kind.
const sharedForm = "shared"

//go:embed listing.py
var listingSource string

//go:embed securebench_row.py
var loaderSource []byte

// onlyTest is the test of a file whose tests are a plain program.
const onlyTest = "test_row"

// sharedRow is what a verification needs of a task.
type sharedRow struct{ prompt, tests string }

// layout is how the tests of an attempt are laid out.
type layout struct {
	file string   // of the tests, below [testsRoot]; its name is fresh
	ids  []string // tests in the file; none means that the tests are a plain program
}

func readShared(v task.SandboxView) (sharedRow, *family.Failure) {
	t, language, f := readTests(v, Inline)
	if f == nil && language != Python {
		f = family.Fail(verdict.NoVerifier, "shared tests of languages other than python have no verifier")
	}
	if f != nil {
		return sharedRow{}, f
	}
	prompt, _ := v.Get("prompt")
	out := sharedRow{tests: t.Code}
	out.prompt, _ = prompt.Text()
	return out, nil
}

// runnerTests is the run of the row's tests.
func (r sharedRow) runnerTests(l layout) testrunner.Tests {
	t := testrunner.Outside(testsRoot, path.Join(testsRoot, l.file), root)
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
	word = lazyregexp.New(`[\p{L}_][\p{L}\p{M}\p{N}_]*`)
	// future is a statement that must be the first of a file.
	future = lazyregexp.New(`(?m)^from[ \t]+__future__[ \t]+import[ \t]+(?:\([^)]*\)|[^\n(]*)[ \t]*(?:#[^\n]*)?$`)
)

// mentioned lists the names that the tests mention, as a list in Python. Of the
// candidate, the tests get only these: pytest would take other functions and
// classes of the candidate's for tests.
func (r sharedRow) mentioned() string {
	found := word.FindAllString(r.tests, -1)
	slices.Sort(found)
	return `["` + strings.Join(slices.Compact(found), `", "`) + `"]`
}

// files are the files of the tests and the canaries, by name.
func (r sharedRow) files(l layout, canaries map[string][]byte) (out []boxFile) {
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
		out = append(out, boxFile{Path: name, Mode: 0o444, Data: contents[name]})
	}
	return out
}

// testModule is the tests, with the candidate's names in front.
func (r sharedRow) testModule() string {
	head := "import securebench_row; globals().update(securebench_row.names(" + r.mentioned() + "))\n"
	at := 0
	if found := future.FindAllStringIndex(r.tests, -1); found != nil {
		at = found[len(found)-1][1]
		head = "\n" + head
	}
	return r.tests[:at] + head + r.tests[at:]
}
