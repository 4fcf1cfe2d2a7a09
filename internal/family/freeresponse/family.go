package freeresponse

import (
	_ "embed" // the schemas
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/judged"
	"securebench/internal/family/textmatch"
	"securebench/internal/judge"
	"securebench/internal/task"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// Family describes free_response.
func Family() family.Family {
	return family.Family{
		Name:        "free_response",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Check:       check,
		Doubts:      doubtful,
		Lanes: map[string]task.Lane{
			"reference_answer": task.Hidden,
			"rubric":           task.Hidden,
			"canaries":         task.Hidden,
		},
		Extraction:     task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Instruction:    "Answer the prompt in your own words. Output only the answer.",
		VerifySeconds:  300,
		Reference:      reference,
		PublicMetadata: []string{"candidate_answer", "expected_answer", "rubric_type"},
		Judged:         judged.Asks,
		Canaries:       canaries,
		Baselines: append(family.Constants("yes", "no", "true", "false", "I don't know", "I have no comment", "nothing"),
			family.Echo("prompt")),
		NewVerifier: NewVerifier,
	}
}

// answers are the texts of an object rubric.
type answers struct {
	Accepted []string `json:"accepted_answers"`
	Rejected []string `json:"rejected_answers"`
}

// rubricAnswers reads an object rubric; a string rubric has none.
func rubricAnswers(rubric jsontext.Value) (a answers, ok bool) {
	return a, rubric.Kind() == '{' && json.Unmarshal(rubric, &a) == nil
}

// check refuses answers that are empty after normalisation: an empty candidate
// would match an accepted one, and every candidate a rejected one. It refuses
// anything else that the verifier cannot score.
func check(row family.Row) (out []family.Problem) {
	add := func(text string, path ...string) {
		if textmatch.Normalize(text) == "" {
			out = append(out, family.Problem{Path: path, Message: "is empty after normalisation",
				Fix: "spaces, quotes and . , ; : at either end are ignored"})
		}
	}
	a, _ := rubricAnswers(row.Eval["rubric"])
	for i, text := range a.Accepted {
		add(text, "eval", "rubric", "accepted_answers", strconv.Itoa(i))
	}
	for i, text := range a.Rejected {
		add(text, "eval", "rubric", "rejected_answers", strconv.Itoa(i))
	}
	var text string
	if v := row.Eval["reference_answer"]; v != nil && json.Unmarshal(v, &text) == nil {
		add(text, "eval", "reference_answer")
	}
	if rubric := row.Eval["rubric"]; len(out) == 0 {
		_, err := newRubric(rubric)
		if judge.Needed(rubric) {
			_, err = judge.ParseRubric(rubric)
		}
		if err != nil {
			out = append(out, family.Problem{Path: []string{"eval", "rubric"}, Message: "cannot be scored: " + err.Error()})
		}
	}
	return out
}

// doubtful finds answers that are accepted and rejected.
func doubtful(row family.Row) (out []family.Problem) {
	a, _ := rubricAnswers(row.Eval["rubric"])
	accepted := map[string]bool{}
	for _, text := range a.Accepted {
		accepted[textmatch.Normalize(text)] = true
	}
	for i, text := range a.Rejected {
		if accepted[textmatch.Normalize(text)] {
			out = append(out, family.Problem{Path: []string{"eval", "rubric", "rejected_answers", strconv.Itoa(i)},
				Message: "is accepted as well", Fix: "remove it from one of the two"})
		}
	}
	return out
}

// reference answers with the reference answer, or else with the first accepted
// answer of an object rubric.
func reference(v task.EvaluatorView) (family.Solution, bool) {
	if text := referenceAnswer(v); text != "" {
		return family.Solve(task.Text, text), true
	}
	rubric, _ := v.Get("rubric")
	a, ok := rubricAnswers(rubric.Value)
	if !ok || len(a.Accepted) == 0 {
		return family.Solution{}, false
	}
	return family.Solve(task.Text, a.Accepted[0]), true
}

// canaries returns what a judge is tried with on a row.
func canaries(v task.EvaluatorView) (judge.Specimen, bool) {
	return judged.Canaries(v, referenceAnswer(v))
}
