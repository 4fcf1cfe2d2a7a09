// Package codecompletion is the family in which the agent writes a module of
// code that the row's tests call.
package codecompletion

import (
	_ "embed" // the schemas
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/forms"
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
		EvalFiles:      [][]string{{"tests", "compare", "path"}},
		Submission:     forms.Submission,
		Extraction:     task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: forms.SourceFile(forms.Python), OrStdout: true},
		Instruction:    forms.ModuleInstruction,
		TimeLimit:      forms.TimeLimit,
		NeedsImage:     true,
		Footprint:      forms.Footprint,
		Kept:           capacity.Footprint{Boxes: 1},  // the test sandbox
		Once:           capacity.Footprint{Halves: 1}, // the analysis sandbox
		VerifySeconds:  30,
		Reference:      reference,
		PublicMetadata: []string{"language", "image", "completed_by_prompt"},
		Starter:        starter,
		Pending:        pending,
		NewVerifier:    forms.NewVerifier(newVerifier, reference),
	}
}

// pending says why a row's tests cannot be run here.
func pending(s task.SandboxView, e task.EvaluatorView) (verdict.Reason, string) {
	f := forms.Refusal(s)
	if forms.Of(s) == forms.Inline {
		_, err := readRow(family.Case{Sandbox: s, Evaluator: e})
		f, _ = errors.AsType[*family.Failure](err)
	}
	if f != nil {
		return f.Reason, f.Message
	}
	return "", ""
}

// check applies the rules that the schema cannot express.
func check(row family.Row) []family.Problem {
	out := forms.Check(row)
	var tests struct {
		Source string     `json:"source"`
		Code   forms.Code `json:"code"`
	}
	if json.Unmarshal(row.Eval["tests"], &tests) == nil && tests.Source == forms.Inline {
		out = append(checkSize(row, tests.Code.Size()), out...)
	}
	return out
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
func checkSize(row family.Row, tests int) []family.Problem {
	total := tests
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
