package forms

import (
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/checker"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// casesForm is the value of eval.tests.source in rows of this kind.
const casesForm = "cases"

// casesRow is what a verification needs of a task that is scored by cases. A case's
// input goes into the candidate's sandbox when its turn comes. What the case expects
// never does: this process compares.
type casesRow struct {
	language string
	file     string   // of the candidate
	compile  []string // argv; nil is none
	command  []string // argv
	compare  comparison
	checker  *checker.Options // of the pack, which then decides in the place of compare
	each     time.Duration    // the limit of a case; 0 is none but the row's
	cases    []testCase
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

// readCases takes a row from the lanes that the parent may see.
func readCases(v task.SandboxView) (casesRow, *family.Failure) {
	t, language, f := readTests(v, casesForm)
	if f == nil && (len(t.Command) == 0 || len(t.Cases) == 0) {
		f = errForm()
	}
	if f != nil {
		return casesRow{}, f
	}
	r := casesRow{language: language, file: t.File, compile: t.Compile, command: t.Command,
		each: time.Duration(t.Each * float64(time.Second)), cases: t.Cases}
	if f := r.readCompare(t.Compare); f != nil {
		return casesRow{}, f
	}
	if t.Tolerance != nil {
		tolerance, ok := new(big.Rat).SetString(string(t.Tolerance))
		if !ok {
			return casesRow{}, family.Fail(verdict.NoVerifier, "the row's tolerance is not a number")
		}
		r.compare.tolerance = tolerance
	}
	return r, nil
}

// readCompare reads how outputs are compared: a word, or an object that names a checker.
func (r *casesRow) readCompare(v jsontext.Value) *family.Failure {
	if v.Kind() == '{' {
		r.checker = &checker.Options{}
		if json.Unmarshal(v, r.checker) != nil || r.checker.Path == "" {
			return errForm()
		}
		return nil
	}
	if json.Unmarshal(v, &r.compare.how) != nil {
		return errForm()
	}
	return nil
}

// checked is the part of a row's tests that the schema cannot check.
type checked struct {
	File      string         `json:"file"`
	Compare   jsontext.Value `json:"compare"`
	Tolerance jsontext.Value `json:"tolerance"`
	Cases     []struct {
		Files  map[string]jsontext.Value `json:"files"`
		Expect struct {
			Files map[string]jsontext.Value `json:"files"`
		} `json:"expect"`
	} `json:"cases"`
}

// checkCases applies the rules that the schema cannot express.
func checkCases(r family.Row) (out []family.Problem) {
	var t checked
	if err := json.Unmarshal(r.Eval["tests"], &t); err != nil {
		return []family.Problem{{Path: []string{"eval", "tests"}, Message: "cannot be read"}}
	}
	switch {
	case t.Tolerance != nil && string(t.Compare) != strconv.Quote(numeric):
		out = append(out, family.Problem{Path: []string{"eval", "tests", "tolerance"}, Message: `needs the comparison "numeric"`})
	case t.Tolerance != nil && !isNumber(t.Tolerance):
		out = append(out, family.Problem{Path: []string{"eval", "tests", "tolerance"}, Message: "has too many digits to compare with"})
	}
	if t.File != "" && !isLocal(t.File) {
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
		if !isLocal(name) {
			out = append(out, notLocal(slices.Concat(at, []string{name}), "must have a relative path as its name"))
		}
	}
	return out
}

func notLocal(at []string, what string) family.Problem {
	return family.Problem{Path: at, Message: what, Fix: `no "..", no backslash, in its shortest form`}
}
