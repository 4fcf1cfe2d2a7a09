// Package forms tells the forms of tests of code_completion rows apart, says what
// differs between them, and has each row scored by the verifier of its form.
package forms

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/cases"
	"securebench/internal/family/codecompletion/linked"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/family/codecompletion/shared"
	"securebench/internal/task"
)

// Inline is the form of tests that are split from the candidate, and the source of
// those that share a process with it as well.
const Inline = "inline"

// testSpec is the part of eval.tests that says of what form the tests are.
type testSpec struct {
	Source      string         `json:"source"`
	Containment string         `json:"containment"`
	Code        string         `json:"code"`
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
	case s.Source == cases.Source:
		return cases.Source
	case s.Source == Inline && s.Containment == shared.Form && language == programs.Python:
		return shared.Form
	case s.Source == Inline && s.Containment == shared.Form:
		return linked.Form
	}
	return Inline // which refuses what it does not know
}

// Of names the form of a row's tests.
func Of(v task.SandboxView) string {
	tests, _ := v.Get("tests")
	var spec testSpec
	_ = json.Unmarshal(tests.Value, &spec) // the form refuses what it cannot read
	name := programs.Python
	if r, ok := v.Get("language"); ok {
		name, _ = r.Text()
	}
	return spec.form(name)
}

// Refusal says why a row cannot be scored; nil means that it can be. Of [Inline]
// tests it knows nothing.
func Refusal(v task.SandboxView) *family.Failure {
	switch Of(v) {
	case cases.Source:
		return cases.Refusal(v)
	case shared.Form:
		return shared.Refusal(v)
	case linked.Form:
		return linked.Refusal(v)
	}
	return nil
}

// Footprint is what a row has beside the test sandbox that is kept.
func Footprint(v task.SandboxView) capacity.Footprint {
	switch Of(v) {
	case cases.Source, linked.Form:
		return capacity.Footprint{Boxes: 1, Spaces: 1}
	case shared.Form:
		return capacity.Footprint{Boxes: 1, Spaces: 2}
	}
	return capacity.Footprint{Boxes: 1}
}

// language returns the language of a row.
func language(row family.Row) string {
	name := programs.Python
	_ = json.Unmarshal(row.Input["language"], &name) // check reports what cannot be read
	return name
}

// Submission says what an agent submits: a module, or a program in a file of
// the row's language.
func Submission(row family.Row) (task.Extraction, string) {
	var spec testSpec
	x := task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: programs.SourceFile(programs.Python), OrStdout: true}
	_ = json.Unmarshal(row.Eval["tests"], &spec) // check reports what cannot be read
	what := "program that solves"
	switch spec.form(language(row)) {
	case linked.Form:
		what = "source file of functions, without a main program, that solves"
	case cases.Source:
	default:
		return x, ModuleInstruction
	}
	x.Path = cmp.Or(spec.File, programs.SourceFile(language(row)))
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
	form := spec.form(language(row))
	switch form {
	case cases.Source:
		return cases.Check(row)
	case linked.Form:
		out = linked.Check(row)
	case Inline:
		if language(row) != programs.Python {
			out = append(out, family.Problem{Path: []string{"input", "language"}, Message: "must be python for inline tests",
				Fix: `tests of other languages have the source "cases", or the containment "shared"`})
		}
	}
	return append(out, spec.withoutEffect(form)...)
}

// TimeLimit is the row's own limit of a verification.
func TimeLimit(v task.SandboxView) time.Duration {
	tests, _ := v.Get("tests")
	return family.Seconds(tests, "timeout_seconds")
}

// withoutEffect reports keys that make no difference to tests of a form.
func (s testSpec) withoutEffect(form string) (out []family.Problem) {
	split, linking := form == Inline, form == linked.Form
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
		if split || form == shared.Form && key.name != "entry_point" && key.name != "mutates" && key.name != "operators" {
			why = "has no effect on tests in Python"
		}
		out = append(out, family.Problem{Path: []string{"eval", "tests", key.name}, Message: why, Fix: "remove it"})
	}
	return out
}
