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
type sharedRow struct {
	prompt string
	tests  Code
}

// layout is how the tests of an attempt are laid out: the files with tests.
type layout []testFile

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
	target := testsRoot
	if r.tests.Files == nil {
		target = path.Join(testsRoot, l[0].name)
	}
	t := testrunner.Outside(testsRoot, target, root)
	t.Env = environment()
	for _, f := range l {
		t.TestFiles = append(t.TestFiles, f.name)
		t.Functions = append(t.Functions, testrunner.Functions([]byte(f.text))...)
		ids := f.ids
		if len(ids) == 0 && r.tests.Files == nil {
			ids = []string{onlyTest}
		}
		for _, id := range ids {
			t.FailToPass = append(t.FailToPass, f.name+"::"+id)
		}
	}
	slices.Sort(t.TestFiles)
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

// mentioned lists the names that a file of tests mentions, as a list in Python. Of the
// candidate, it gets only these: pytest would take other functions and
// classes of the candidate's for tests.
func mentioned(tests string) string {
	found := word.FindAllString(tests, -1)
	slices.Sort(found)
	return `["` + strings.Join(slices.Compact(found), `", "`) + `"]`
}

// files are the files of the tests and the canaries, by name.
func (r sharedRow) files(l layout, canaries map[string][]byte) (out []boxFile) {
	contents := r.tests.helpers()
	contents[loaderFile], contents[promptFile] = loaderSource, []byte(r.prompt)
	for _, f := range l {
		if len(f.ids) > 0 || r.tests.Files != nil {
			contents[f.name] = []byte(headed(f.text, mentioned(f.text)))
			continue
		}
		contents[programFile] = []byte(f.text)
		contents[f.name] = fmt.Appendf(nil, "import securebench_row\n\n\ndef %s():\n    securebench_row.run(%s)\n", onlyTest, mentioned(f.text))
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

// headed is a file with the candidate's names in front, of which wanted is a list in Python.
func headed(text, wanted string) string {
	head := "import securebench_row; globals().update(securebench_row.names(" + wanted + "))\n"
	at := 0
	if found := future.FindAllStringIndex(text, -1); found != nil {
		at = found[len(found)-1][1]
		head = "\n" + head
	}
	return text[:at] + head + text[at:]
}
