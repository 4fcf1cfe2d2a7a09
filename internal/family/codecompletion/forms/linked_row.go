package forms

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// linkedForm names rows of this kind.
const linkedForm = "linked"

// placeholder is in the tests in place of the token.
const placeholder = "SECUREBENCH_TOKEN"

// linkedRow is what a verification needs of a task.
type linkedRow struct {
	language string
	code     string
	file     string // of the candidate
	testFile string // "" for tests on the standard input
	compile  []string
	command  []string
}

func readLinked(v task.SandboxView) (linkedRow, *family.Failure) {
	t, language, f := readTests(v, Inline)
	if f == nil && len(t.Command) == 0 {
		f = errForm()
	}
	if f != nil {
		return linkedRow{}, f
	}
	return linkedRow{language: language, code: t.Code.Text, file: t.File, testFile: t.TestFile, compile: t.Compile, command: t.Command}, nil
}

// checkLinked applies the rules that the schema cannot express.
func checkLinked(r family.Row) (out []family.Problem) {
	var t rowTests
	if err := json.Unmarshal(r.Eval["tests"], &t); err != nil {
		return nil // it was reported
	}
	problem := func(key, message, fix string) {
		out = append(out, family.Problem{Path: []string{"eval", "tests", key}, Message: message, Fix: fix})
	}
	for _, name := range []struct{ key, value string }{{"file", t.File}, {"test_file", t.TestFile}} {
		if name.value != "" && !isLocal(name.value) {
			out = append(out, notLocal([]string{"eval", "tests", name.key}, "must have a relative path as its value"))
		}
	}
	switch {
	case len(t.Command) == 0:
		problem("command", "is missing", "say how the linked program is run")
	case (t.TestFile == "") != (t.Compile == nil):
		problem("test_file", "and compile go together", "tests that are not compiled are the standard input of the command")
	case t.Compile == nil && len(t.Command) > 0 && !strings.Contains(t.Code.Text, placeholder):
		problem("code", "does not hold "+placeholder, "tests print it after the last test")
	}
	if t.TestFile != "" && t.TestFile == t.File {
		problem("test_file", "is the candidate's file", "")
	}
	return out
}

// withToken returns the text of tests that are compiled, and the standard input of
// the command: the token reaches the tests by one of both.
func (r linkedRow) withToken(token string) (text, stdin []byte) {
	text = []byte(strings.ReplaceAll(r.code, placeholder, token))
	switch {
	case r.compile == nil:
		return nil, text
	case strings.Contains(r.code, placeholder):
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
