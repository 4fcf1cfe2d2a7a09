// Package forms scores code_completion rows whose tests are not split from the
// candidate: by a program's input and output, by tests in Python that share its
// process, or by tests in other languages that are linked with it. It tells the forms
// of tests apart, and has each row scored by the verifier of its form.
package forms

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Inline is the form of tests that are split from the candidate, and the source of
// those that share a process with it as well.
const Inline = "inline"

// testSpec is the part of eval.tests that says of what form the tests are.
type testSpec struct {
	Source      string         `json:"source"`
	Containment string         `json:"containment"`
	Code        Code           `json:"code"`
	File        string         `json:"file"`
	Entry       jsontext.Value `json:"entry_point"`
	Mutates     bool           `json:"mutates"`
	Operators   bool           `json:"operators"`
	Command     jsontext.Value `json:"command"`
	Compile     jsontext.Value `json:"compile"`
	TestFile    jsontext.Value `json:"test_file"`
}

// form names the form of the tests of a row in a language.
func (s testSpec) form(language string) string {
	switch {
	case s.Source == casesForm:
		return casesForm
	case s.Source == Inline && s.Containment == sharedForm && language == Python:
		return sharedForm
	case s.Source == Inline && s.Containment == sharedForm:
		return linkedForm
	}
	return Inline // which refuses what it does not know
}

// Of names the form of a row's tests.
func Of(v task.SandboxView) string {
	tests, _ := v.Get("tests")
	var spec testSpec
	_ = json.Unmarshal(tests.Value, &spec) // the form refuses what it cannot read
	name := Python
	if r, ok := v.Get("language"); ok {
		name, _ = r.Text()
	}
	return spec.form(name)
}

// Refusal says why a row cannot be scored; nil means that it can be. Of [Inline]
// tests it knows nothing.
func Refusal(v task.SandboxView) (f *family.Failure) {
	switch Of(v) {
	case casesForm:
		_, f = readCases(v)
	case sharedForm:
		_, f = readShared(v)
	case linkedForm:
		_, f = readLinked(v)
	}
	return f
}

// rowTests is a row's tests. The family's schema has checked its shape.
type rowTests struct {
	Source    string         `json:"source"`
	Code      Code           `json:"code"`
	File      string         `json:"file"`
	TestFile  string         `json:"test_file"`
	Compile   []string       `json:"compile"`
	Command   []string       `json:"command"`
	Compare   jsontext.Value `json:"compare"`
	Tolerance jsontext.Value `json:"tolerance"`
	Each      float64        `json:"case_seconds"`
	Cases     []testCase     `json:"cases"`
}

// errForm refuses a row that the schema let pass.
func errForm() *family.Failure {
	return family.Fail(verdict.NoVerifier, "the row's tests are not of a known form")
}

// readTests reads a row's tests, of a source, and its language.
func readTests(v task.SandboxView, source string) (t rowTests, language string, f *family.Failure) {
	tests, _ := v.Get("tests")
	if json.Unmarshal(tests.Value, &t) != nil || t.Source != source {
		return t, "", errForm()
	}
	language = Python
	if r, ok := v.Get("language"); ok {
		language, _ = r.Text()
	}
	if t.File == "" {
		t.File = SourceFile(language)
	}
	return t, language, nil
}

// Footprint is what a row has beside the test sandbox that is kept.
func Footprint(v task.SandboxView) capacity.Footprint {
	switch Of(v) {
	case casesForm, linkedForm:
		return capacity.Footprint{Boxes: 1, Spaces: 1}
	case sharedForm:
		return capacity.Footprint{Boxes: 1, Spaces: 2}
	}
	return capacity.Footprint{Boxes: 1}
}

// languageOf returns the language of a row.
func languageOf(row family.Row) string {
	name := Python
	_ = json.Unmarshal(row.Input["language"], &name) // check reports what cannot be read
	return name
}

// Submission says what an agent submits: a module, or a program in a file of
// the row's language.
func Submission(row family.Row) (task.Extraction, string) {
	var spec testSpec
	x := task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: SourceFile(Python), OrStdout: true}
	_ = json.Unmarshal(row.Eval["tests"], &spec) // check reports what cannot be read
	what := "program that solves"
	switch spec.form(languageOf(row)) {
	case linkedForm:
		what = "source file of functions, without a main program, that solves"
	case casesForm:
	default:
		return x, ModuleInstruction
	}
	x.Path = cmp.Or(spec.File, SourceFile(languageOf(row)))
	return x, fmt.Sprintf(programInstruction, what, x.Path)
}

const (
	// ModuleInstruction describes to an agent what most rows want.
	ModuleInstruction = "Write a complete module that solves the task to candidate.py in the workspace. " +
		"It must contain everything it needs, including the prompt's own code."
	programInstruction = "Write a complete %s the task to %s in the workspace. " +
		"It must contain everything it needs, including the prompt's own code."
)

// Check applies the rules that tie language, source and containment together.
func Check(row family.Row) (out []family.Problem) {
	var spec testSpec
	if err := json.Unmarshal(row.Eval["tests"], &spec); err != nil {
		return []family.Problem{{Path: []string{"eval", "tests"}, Message: "cannot be read"}}
	}
	form := spec.form(languageOf(row))
	switch form {
	case casesForm:
		return checkCases(row)
	case linkedForm:
		out = checkLinked(row)
	case Inline:
		if languageOf(row) != Python {
			out = append(out, family.Problem{Path: []string{"input", "language"}, Message: "must be python for inline tests",
				Fix: `tests of other languages have the source "cases", or the containment "shared"`})
		}
	}
	return slices.Concat(out, checkCode(spec.Code, form), spec.withoutEffect(form))
}

// TimeLimit is the row's own limit of a verification.
func TimeLimit(v task.SandboxView) time.Duration {
	tests, _ := v.Get("tests")
	return family.Seconds(tests, "timeout_seconds")
}

// withoutEffect reports keys that make no difference to tests of a form.
func (s testSpec) withoutEffect(form string) (out []family.Problem) {
	split, linking := form == Inline, form == linkedForm
	for _, key := range []struct {
		name     string
		set, has bool
	}{
		{"entry_point", s.Entry != nil, split}, {"mutates", s.Mutates, split}, {"operators", s.Operators, split},
		{"file", s.File != "", linking}, {"test_file", s.TestFile != nil, linking}, {"compile", s.Compile != nil, linking}, {"command", s.Command != nil, linking},
	} {
		if !key.set || key.has {
			continue
		}
		why := "has no effect on tests that share a process with the candidate"
		if split || form == sharedForm && key.name != "entry_point" && key.name != "mutates" && key.name != "operators" {
			why = "has no effect on tests in Python"
		}
		out = append(out, family.Problem{Path: []string{"eval", "tests", key.name}, Message: why, Fix: "remove it"})
	}
	return out
}
