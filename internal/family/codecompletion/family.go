// Package codecompletion is the family in which the agent writes a module of
// code that the row's tests call.
package codecompletion

import (
	"cmp"
	_ "embed" // the schemas
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/bysource"
	"securebench/internal/family/codecompletion/cases"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// Family describes code_completion.
func Family() family.Family {
	return family.Family{
		Name:        "code_completion",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Check:       check,
		Lanes: map[string]task.Lane{
			"tests":              task.EvaluationInputs,
			"reference_solution": task.Hidden,
			"canonical_solution": task.Hidden,
		},
		Submission:     submission,
		Extraction:     task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: programs.SourceFile(programs.Python), OrStdout: true},
		Instruction:    moduleInstruction,
		TimeLimit:      timeLimit,
		NeedsImage:     true,
		Footprint:      footprint,
		Kept:           capacity.Footprint{Boxes: 1}, // the test sandbox
		VerifySeconds:  30,
		Reference:      reference,
		PublicMetadata: []string{"language", "image", "completed_by_prompt"},
		Starter:        starter,
		Pending:        pending,
		NewVerifier:    bysource.New(formOf, reference, forms()),
	}
}

// testSpec is the part of eval.tests that says of what form the tests are.
type testSpec struct {
	Source string `json:"source"`
	Code   string `json:"code"`
	File   string `json:"file"`
}

// The forms of tests.
const formInline = "inline"

// forms makes the verifier of each form.
func forms() bysource.Verifiers {
	return bysource.Verifiers{formInline: NewVerifier, cases.Source: cases.New}
}

// formOf names the form of a row's tests.
func formOf(v task.SandboxView) string {
	tests, _ := v.Get("tests")
	var spec testSpec
	if json.Unmarshal(tests.Value, &spec) == nil && spec.Source == cases.Source {
		return cases.Source
	}
	return formInline // which refuses what it does not know
}

// footprint is what a row has beside the test sandbox that is kept.
func footprint(v task.SandboxView) capacity.Footprint {
	if formOf(v) == cases.Source {
		return capacity.Footprint{Boxes: 1, Spaces: 1}
	}
	return capacity.Footprint{Boxes: 1}
}

// pending says why a row's tests cannot be run here.
func pending(s task.SandboxView, e task.EvaluatorView) (verdict.Reason, string) {
	if formOf(s) == cases.Source {
		return cases.Pending(s)
	}
	return pendingInline(s, e)
}

// language returns the language of a row.
func language(row family.Row) string {
	name := programs.Python
	_ = json.Unmarshal(row.Input["language"], &name) // check reports what cannot be read
	return name
}

// submission says what an agent submits: a module, or a program in a file of
// the row's language.
func submission(row family.Row) (task.Extraction, string) {
	var spec testSpec
	x, instruction := task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: programs.SourceFile(programs.Python), OrStdout: true}, moduleInstruction
	if json.Unmarshal(row.Eval["tests"], &spec) == nil && spec.Source == cases.Source {
		x.Path = cmp.Or(spec.File, programs.SourceFile(language(row)))
		instruction = fmt.Sprintf(programInstruction, x.Path)
	}
	return x, instruction
}

const (
	moduleInstruction = "Write one complete module that solves the task to candidate.py in the workspace. " +
		"It must contain everything that it needs, the prompt's own code included."
	programInstruction = "Write one complete program that solves the task to %s in the workspace. " +
		"It must contain everything that it needs, the prompt's own code included."
)

// check applies the rules that tie language and source together.
func check(row family.Row) (out []family.Problem) {
	var spec testSpec
	if err := json.Unmarshal(row.Eval["tests"], &spec); err != nil {
		return []family.Problem{{Path: []string{"eval", "tests"}, Message: "cannot be read"}}
	}
	if spec.Source == cases.Source {
		return cases.Check(row)
	}
	out = checkSize(row, spec.Code)
	if language(row) != programs.Python {
		out = append(out, family.Problem{Path: []string{"input", "language"}, Message: "must be python for inline tests",
			Fix: `tests of other languages have the source "cases"`})
	}
	return out
}

// timeLimit is the row's own limit of a verification.
func timeLimit(v task.SandboxView) time.Duration {
	tests, _ := v.Get("tests")
	return family.Seconds(tests, "timeout_seconds")
}

// reference returns the row's own solution. A canonical solution that only
// continues the prompt is returned unchanged: whether it is a module by itself
// is for a Python parser to decide, which the verifier has.
func reference(v task.EvaluatorView) (family.Solution, bool) {
	for _, name := range []string{"reference_solution", "canonical_solution"} {
		if c, ok := code(v.Get(name)); ok {
			return family.Solution{Candidate: c}, true
		}
	}
	return family.Solution{}, false
}

// starter returns the code from which the agent starts.
func starter(v task.AgentView) (candidate.Candidate, bool) { return code(v.Get("starter_code")) }

// code makes a candidate of a text resource that is not blank.
func code(r task.Resource, ok bool) (candidate.Candidate, bool) {
	text, isText := r.Text()
	if !ok || !isText || strings.TrimSpace(text) == "" {
		return candidate.Candidate{}, false
	}
	return candidate.New(task.Code, candidate.Given, []byte(text)), true
}

// maxRowText bounds what the test sandbox gets of a row in one frame, in bytes:
// prompt, tests and reference. The frame has some room beside it.
const maxRowText = maxSource - 1<<20

// checkSize refuses a row that does not fit into a frame.
func checkSize(row family.Row, tests string) []family.Problem {
	total := len(tests)
	for _, v := range []jsontext.Value{row.Input["prompt"], row.Eval["reference_solution"], row.Eval["canonical_solution"]} {
		var text string
		if v != nil && json.Unmarshal(v, &text) == nil {
			total += len(text)
		}
	}
	if total <= maxRowText {
		return nil
	}
	return []family.Problem{{Path: []string{"eval", "tests"}, Fix: "make the data in the tests instead of writing it out",
		Message: fmt.Sprintf("and the prompt and reference have %d bytes together, more than %d", total, maxRowText)}}
}
