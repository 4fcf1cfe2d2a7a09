// Package cases scores candidates that are programs by what they do with given
// input: their output, their exit code and the files that they write.
//
// A case's input goes into the candidate's sandbox when its turn comes. What the
// case expects never does: this process compares.
package cases

import (
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Source is the value of eval.tests.source in rows of this kind.
const Source = "cases"

// row is what a verification needs of a task.
type row struct {
	language string
	file     string   // of the candidate
	compile  []string // argv; nil is none
	command  []string // argv
	compare  comparison
	each     time.Duration // the limit of a case; 0 is none but the row's
	cases    []testCase
}

// testsObject is the row's tests. The family's schema has checked its shape.
type testsObject struct {
	Source    string         `json:"source"`
	File      string         `json:"file"`
	Compile   []string       `json:"compile"`
	Command   []string       `json:"command"`
	Compare   string         `json:"compare"`
	Tolerance jsontext.Value `json:"tolerance"`
	Each      float64        `json:"case_seconds"`
	Total     float64        `json:"timeout_seconds"`
	Cases     []testCase     `json:"cases"`
}

// testCase is one run of the program.
type testCase struct {
	Args   []string          `json:"args"`
	Stdin  string            `json:"stdin"`
	Files  map[string]string `json:"files"`
	Expect struct {
		Stdout   *string           `json:"stdout"`
		ExitCode int               `json:"exit_code"` // 0 where the case says nothing
		Files    map[string]string `json:"files"`
	} `json:"expect"`
}

// read takes a row from the lanes that the parent may see.
func read(v task.SandboxView) (row, *family.Failure) {
	tests, _ := v.Get("tests")
	var t testsObject
	if json.Unmarshal(tests.Value, &t) != nil || t.Source != Source || len(t.Command) == 0 || len(t.Cases) == 0 {
		return row{}, family.Fail(verdict.NoVerifier, "the row's tests are not of a known form")
	}
	r := row{language: programs.Python, file: t.File, compile: t.Compile, command: t.Command,
		compare: comparison{how: t.Compare}, each: time.Duration(t.Each * float64(time.Second)), cases: t.Cases}
	if language, ok := v.Get("language"); ok {
		r.language, _ = language.Text()
	}
	if r.file == "" {
		r.file = programs.SourceFile(r.language)
	}
	if t.Tolerance != nil {
		tolerance, ok := new(big.Rat).SetString(string(t.Tolerance))
		if !ok {
			return row{}, family.Fail(verdict.NoVerifier, "the row's tolerance is not a number")
		}
		r.compare.tolerance = tolerance
	}
	return r, nil
}

// Refusal says why a row cannot be scored; nil means that it can be.
func Refusal(v task.SandboxView) *family.Failure {
	_, f := read(v)
	return f
}

// checked is the part of a row's tests that the schema cannot check.
type checked struct {
	File      string         `json:"file"`
	Compare   string         `json:"compare"`
	Tolerance jsontext.Value `json:"tolerance"`
	Cases     []struct {
		Files  map[string]jsontext.Value `json:"files"`
		Expect struct {
			Files map[string]jsontext.Value `json:"files"`
		} `json:"expect"`
	} `json:"cases"`
}

// Check applies the rules that the schema cannot express.
func Check(r family.Row) (out []family.Problem) {
	var t checked
	if err := json.Unmarshal(r.Eval["tests"], &t); err != nil {
		return []family.Problem{{Path: []string{"eval", "tests"}, Message: "cannot be read"}}
	}
	switch {
	case t.Tolerance != nil && t.Compare != numeric:
		out = append(out, family.Problem{Path: []string{"eval", "tests", "tolerance"}, Message: `needs the comparison "numeric"`})
	case t.Tolerance != nil && !isNumber(t.Tolerance):
		out = append(out, family.Problem{Path: []string{"eval", "tests", "tolerance"}, Message: "has too many digits to compare with"})
	}
	if t.File != "" && !programs.IsLocal(t.File) {
		out = append(out, notLocal([]string{"eval", "tests", "file"}, "must have a relative path as its value"))
	}
	for i, c := range t.Cases {
		at := []string{"eval", "tests", "cases", strconv.Itoa(i)}
		out = append(out, checkFiles(c.Files, slices.Concat(at, []string{"files"}))...)
		out = append(out, checkFiles(c.Expect.Files, slices.Concat(at, []string{"expect", "files"}))...)
	}
	return out
}

func isNumber(v jsontext.Value) bool {
	_, ok := number(string(v))
	return ok
}

// checkFiles checks that the names of files are paths inside a case's folder.
func checkFiles(files map[string]jsontext.Value, at []string) (out []family.Problem) {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !programs.IsLocal(name) {
			out = append(out, notLocal(slices.Concat(at, []string{name}), "must have a relative path as its name"))
		}
	}
	return out
}

func notLocal(at []string, what string) family.Problem {
	return family.Problem{Path: at, Message: what, Fix: `no "..", no backslash, in its shortest form`}
}
