// Package forms tells the forms of tests of code_completion rows apart, and says
// what differs between them.
package forms

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/bysource"
	"securebench/internal/family/codecompletion/cases"
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
}

// form names the form of the tests.
func (s testSpec) form() string {
	switch {
	case s.Source == cases.Source:
		return cases.Source
	case s.Source == Inline && s.Containment == shared.Form:
		return shared.Form
	}
	return Inline // which refuses what it does not know
}

// Rules say which other form is worth trying for a row.
func Rules() []bysource.Rule {
	return []bysource.Rule{
		{From: Inline, To: shared.Form, Advice: `the tests cannot be split from the candidate, but pass in one process with it: set eval.tests.containment to "shared"`},
		{From: shared.Form, To: Inline, Passed: true, Advice: "the tests can be split from the candidate: remove eval.tests.containment"},
	}
}

// Of names the form of a row's tests.
func Of(v task.SandboxView) string {
	tests, _ := v.Get("tests")
	var spec testSpec
	_ = json.Unmarshal(tests.Value, &spec) // the form refuses what it cannot read
	return spec.form()
}

// Footprint is what a row has beside the test sandbox that is kept.
func Footprint(v task.SandboxView) capacity.Footprint {
	switch Of(v) {
	case cases.Source:
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
	x, instruction := task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: programs.SourceFile(programs.Python), OrStdout: true}, ModuleInstruction
	if json.Unmarshal(row.Eval["tests"], &spec) == nil && spec.Source == cases.Source {
		x.Path = cmp.Or(spec.File, programs.SourceFile(language(row)))
		instruction = fmt.Sprintf(programInstruction, x.Path)
	}
	return x, instruction
}

const (
	// ModuleInstruction describes to an agent what most rows want.
	ModuleInstruction = "Write one complete module that solves the task to candidate.py in the workspace. " +
		"It must contain everything that it needs, the prompt's own code included."
	programInstruction = "Write one complete program that solves the task to %s in the workspace. " +
		"It must contain everything that it needs, the prompt's own code included."
)

// Check applies the rules that tie language, source and containment together.
func Check(row family.Row) (out []family.Problem) {
	var spec testSpec
	if err := json.Unmarshal(row.Eval["tests"], &spec); err != nil {
		return []family.Problem{{Path: []string{"eval", "tests"}, Message: "cannot be read"}}
	}
	if spec.Source == cases.Source {
		return cases.Check(row)
	}
	if language(row) != programs.Python {
		out = append(out, family.Problem{Path: []string{"input", "language"}, Message: "must be python for inline tests",
			Fix: `tests of other languages have the source "cases"`})
	}
	if spec.form() == shared.Form {
		out = append(out, spec.withoutEffect()...)
	}
	return out
}

// TimeLimit is the row's own limit of a verification.
func TimeLimit(v task.SandboxView) time.Duration {
	tests, _ := v.Get("tests")
	return family.Seconds(tests, "timeout_seconds")
}

// withoutEffect reports what makes no difference to tests that share a process with
// the candidate.
func (s testSpec) withoutEffect() (out []family.Problem) {
	for _, key := range []struct {
		name string
		set  bool
	}{{"entry_point", s.Entry != nil}, {"mutates", s.Mutates}, {"operators", s.Operators}} {
		if key.set {
			out = append(out, family.Problem{Path: []string{"eval", "tests", key.name}, Message: "has no effect on tests that share a process with the candidate", Fix: "remove it"})
		}
	}
	return out
}
