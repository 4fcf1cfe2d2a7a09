// Package linked scores code in any language by tests that are linked with it: the
// tests are a program that calls the candidate's functions.
//
// An exit status says little about such a program, which the candidate can end at any
// point. A pass needs a token that is fresh for every attempt, and that the tests
// report after their last test as the last line of the standard output, which goes to
// securebench's init. Where the tests' text is compiled, the token is in it; the text is
// removed before the program runs, but the program holds the token. Tests that are
// interpreted get it, or are given whole, on the standard input, which they read before
// they load the candidate. That stops candidates that end early or print a verdict. It
// does not stop one that is made for it: it shares the process, so it can read the
// token in the program's file and memory, take the place of functions that the tests
// call where the linker lets it, and read the tests' text while it is compiled.
// Verdicts have the containment shared.
package linked

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Form names rows of this kind.
const Form = "linked"

// Placeholder stands in the tests for the token.
const Placeholder = "SECUREBENCH_TOKEN"

// row is what a verification needs of a task.
type row struct {
	language string
	code     string
	file     string // of the candidate
	testFile string // "" for tests on the standard input
	compile  []string
	command  []string
}

// testsObject is the row's tests. The family's schema has checked its shape.
type testsObject struct {
	Source   string   `json:"source"`
	Code     string   `json:"code"`
	File     string   `json:"file"`
	TestFile string   `json:"test_file"`
	Compile  []string `json:"compile"`
	Command  []string `json:"command"`
}

func read(v task.SandboxView) (row, *family.Failure) {
	tests, _ := v.Get("tests")
	var t testsObject
	if json.Unmarshal(tests.Value, &t) != nil || t.Source != "inline" || len(t.Command) == 0 {
		return row{}, family.Fail(verdict.NoVerifier, "the row's tests are not of a known form")
	}
	r := row{code: t.Code, file: t.File, testFile: t.TestFile, compile: t.Compile, command: t.Command}
	language, _ := v.Get("language")
	r.language, _ = language.Text()
	if r.file == "" {
		r.file = programs.SourceFile(r.language)
	}
	return r, nil
}

// Refusal says why a row cannot be scored; nil means that it can be.
func Refusal(v task.SandboxView) *family.Failure {
	_, f := read(v)
	return f
}

// Check applies the rules that the schema cannot express.
func Check(r family.Row) (out []family.Problem) {
	var t testsObject
	if err := json.Unmarshal(r.Eval["tests"], &t); err != nil {
		return nil // it was reported
	}
	problem := func(key, message, fix string) {
		out = append(out, family.Problem{Path: []string{"eval", "tests", key}, Message: message, Fix: fix})
	}
	for _, name := range []struct{ key, value string }{{"file", t.File}, {"test_file", t.TestFile}} {
		if name.value != "" && !programs.IsLocal(name.value) {
			problem(name.key, "must have a relative path as its value", `no "..", no backslash, in its shortest form`)
		}
	}
	switch {
	case len(t.Command) == 0:
		problem("command", "is missing", "say how the linked program is run")
	case (t.TestFile == "") != (t.Compile == nil):
		problem("test_file", "and compile go together", "tests that are not compiled are the standard input of the command")
	case t.Compile == nil && len(t.Command) > 0 && !strings.Contains(t.Code, Placeholder):
		problem("code", "does not hold "+Placeholder, "tests print it after the last test")
	}
	if t.TestFile != "" && t.TestFile == t.File {
		problem("test_file", "is the candidate's file", "")
	}
	return out
}

// withToken returns the text of tests that are compiled, and the standard input of
// the command: the token reaches the tests by one of both.
func (r row) withToken(token string) (text, stdin []byte) {
	text = []byte(strings.ReplaceAll(r.code, Placeholder, token))
	switch {
	case r.compile == nil:
		return nil, text
	case strings.Contains(r.code, Placeholder):
		return text, nil
	}
	return text, []byte(token + "\n")
}

// reported says what a program that printed this has reported.
func reported(stdout, token string, exitCode int) *family.Failure {
	lines := strings.Split(strings.TrimRight(stdout, "\r\n"), "\n")
	last := strings.TrimSuffix(lines[len(lines)-1], "\r")
	switch found := strings.Count(stdout, token); {
	case found == 0 && exitCode == 0:
		return family.Fail(verdict.WorkerExited, "the program ended before its last test")
	case exitCode != 0:
		return family.Fail(verdict.TestsFailed, "the tests ended with exit code %s", strconv.Itoa(exitCode))
	case found != 1 || last != token:
		return family.Fail(verdict.ProtocolViolation, "the end of the tests is reported twice, or not at the end")
	}
	return nil
}
