package forms

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/testrunner"
)

// Code is the tests of a row: one text, or a folder of pytest's files.
type Code struct {
	Text  string
	Files map[string]string // by path; nil for one text
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Code) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		return json.Unmarshal(data, &c.Files)
	}
	return json.Unmarshal(data, &c.Text)
}

// Size is the number of bytes of all texts.
func (c Code) Size() int {
	size := len(c.Text)
	for _, text := range c.Files {
		size += len(text)
	}
	return size
}

// ownFiles are names of securebench's own beside the tests.
func ownFiles() []string { return []string{loaderFile, promptFile, programFile, "candidate.py"} }

// The files of securebench beside the tests.
const (
	loaderFile  = "securebench_row.py"
	promptFile  = "prompt.txt"
	programFile = "tests.txt"
)

// isTestFile reports whether pytest takes a file for one with tests.
func isTestFile(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(base, ".py") && (strings.HasPrefix(base, "test_") || strings.HasSuffix(base, "_test.py"))
}

// stem is the name by which other files import a file.
func stem(name string) string { return strings.TrimSuffix(path.Base(name), ".py") }

// checkCode applies the rules of a folder of tests.
func checkCode(c Code, form string) (out []family.Problem) {
	if c.Files == nil {
		return nil
	}
	problem := func(message, fix string) {
		out = append(out, family.Problem{Path: []string{"eval", "tests", "code"}, Message: message, Fix: fix})
	}
	switch form {
	case Inline:
		problem("is a folder of pytest files, and tests that are split from the candidate are one text", `set eval.tests.containment to "shared", or write one file`)
		return out
	case sharedForm:
	default:
		problem("is a folder of files, and tests in other languages than Python are one text", "name one file")
		return out
	}
	tests := 0
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		top, _, _ := strings.Cut(name, "/")
		switch {
		case !isLocal(name) || path.Clean(name) != name:
			problem(fmt.Sprintf("has a file %q, which is no relative path", name), "write it without . and ..")
		case slices.Contains(ownFiles(), top):
			problem(fmt.Sprintf("has a file %q, in the place of one of securebench's own", name), "rename it")
		}
		for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if _, both := c.Files[dir]; both {
				problem(fmt.Sprintf("has a file %q, below another file", name), "rename one of them")
			}
		}
		if isTestFile(name) {
			tests++
		}
	}
	if tests == 0 {
		problem("has no file of tests", "name it test_….py or …_test.py, as pytest does")
	}
	return out
}

// testFile is a file of tests as it is laid out.
type testFile struct {
	name string // below [testsRoot]
	text string
	ids  []string // tests that must pass; none of one text means that it is a plain program
}

// tests returns the files with tests under the names that they get in an attempt: fresh ones,
// so that no constant name tells them from canaries. A file that another file mentions keeps
// its name.
func (c Code) tests(seed [32]byte) map[string]testFile {
	if c.Files == nil {
		name := testrunner.FileName(seed)
		return map[string]testFile{"": {name: name, text: c.Text}}
	}
	mentioned := map[string]map[string]bool{} // by whom, of the names of files with tests
	for name := range c.Files {
		if isTestFile(name) {
			mentioned[stem(name)] = map[string]bool{}
		}
	}
	for name, text := range c.Files {
		for _, w := range word.FindAllString(text, -1) {
			if by := mentioned[w]; by != nil {
				by[name] = true
			}
		}
	}
	out, taken := map[string]testFile{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		if !isTestFile(name) {
			continue
		}
		laid, by := name, mentioned[stem(name)]
		if len(by) == 0 || len(by) == 1 && by[name] {
			for i := 0; laid == name || taken[path.Base(laid)]; i++ {
				laid = path.Join(path.Dir(name), testrunner.FileName(sha256.Sum256(fmt.Appendf(nil, "%x %d %s", seed, i, name))))
			}
		}
		taken[path.Base(laid)] = true
		out[name] = testFile{name: laid, text: c.Files[name]}
	}
	return out
}

// helpers are the other files of a folder by path. Those that name the candidate's module
// find it.
func (c Code) helpers() map[string][]byte {
	out := map[string][]byte{}
	for name, text := range c.Files {
		if isTestFile(name) {
			continue
		}
		out[name] = []byte(text)
		if strings.HasSuffix(name, ".py") && slices.Contains(word.FindAllString(text, -1), "candidate") {
			out[name] = []byte(headed(text, "[]"))
		}
	}
	return out
}

// isFolder reports whether the tests of a row are a folder of files.
func isFolder(v task.SandboxView) bool {
	t, _, f := readTests(v, Inline)
	return f == nil && t.Code.Files != nil
}
