package multimodalqa

import (
	_ "embed" // the schemas
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/family/judged"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// The instructions to an agent.
const (
	look   = "Look at the pictures or documents that belong to the question. <image1> or <image 1> in the question is the first of them, and so on. "
	choose = look + "Choose exactly one of the choices. They are labelled A, B, C and so on in their order. " +
		"End with one line that holds only the label of your choice."
	reply = look + "Answer the question briefly. End with one line of the form \"Answer: …\" that holds the answer and nothing else."
)

// Family describes multimodal_qa.
func Family() family.Family {
	stdout := task.Extraction{Mode: task.FromStdout, Kind: task.Text}
	return family.Family{
		Name:        "multimodal_qa",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Check:       check,
		Doubts:      doubtful,
		Inspect:     inspect,
		Lanes: map[string]task.Lane{
			"answer": task.Hidden,
			"match":  task.Hidden,
			"rubric": task.Hidden,
		},
		Extraction:  stdout,
		Instruction: reply,
		Submission: func(r family.Row) (task.Extraction, string) {
			if r.Input["choices"] != nil {
				return stdout, choose
			}
			return stdout, reply
		},
		VerifySeconds:  300,
		Reference:      reference,
		PublicMetadata: []string{"candidate_answer", "expected_answer", "library"},
		Baselines:      baselines(),
		Chance:         chance,
		Pending:        pending,
		Judged:         judged.Asks,
		JudgeReads:     judged.Reads,
		Canaries:       canaries,
		Boxed:          isMath,
		MathVerify:     isMath,
		Kept:           capacity.Footprint{Boxes: 2}, // to read expressions, and to compare them
		NewVerifier:    newVerifier,
	}
}

// pending leaves rows with moving pictures or sound without a verdict.
func pending(_ task.SandboxView, v task.EvaluatorView) (verdict.Reason, string) {
	assets, _ := v.Get(task.AssetList)
	for _, f := range filesOf(assets.Value) {
		if f.Type == "video" || f.Type == "audio" {
			return verdict.Media, fmt.Sprintf("the row has %s, which no agent is given yet", f.Type)
		}
	}
	return "", ""
}

// hasChoices reports whether a row is one of multiple choice.
func hasChoices(v task.EvaluatorView) bool {
	_, ok := v.Get("choices")
	return ok
}

// isMath reports whether a row compares mathematical expressions.
func isMath(v task.EvaluatorView) bool {
	match, _ := v.Get("match")
	m, err := readMatch(match.Value)
	return err == nil && m.Type == "math" && !hasChoices(v)
}

// reference answers with the label of the right choice, or with the accepted answer that
// measures best.
func reference(v task.EvaluatorView) (family.Solution, bool) {
	if hasChoices(v) {
		return multiplechoice.Family().Reference(v)
	}
	match, _ := v.Get("match")
	gold, _ := v.Get("answer")
	m, err := readMatch(match.Value)
	switch {
	case err != nil:
		return family.Solution{}, false
	case m.Type == "vqa":
		best, _ := newVotes(golds(gold.Value)).best()
		return family.Solve(task.Text, best), best != ""
	}
	short, err := shortRow(v)
	if err != nil {
		return family.Solution{}, false
	}
	return shortanswer.Family().Reference(short)
}

// chance is that of a row with choices; what answers others could have is not known.
func chance(v task.EvaluatorView) (float64, bool) {
	if !hasChoices(v) {
		return 0, false
	}
	return multiplechoice.Family().Chance(v)
}

// baselines are those of both families. Those that pick a choice say nothing to a row
// without choices.
func baselines() []family.Baseline {
	seen := map[string]bool{}
	var out []family.Baseline
	for _, b := range append(multiplechoice.Family().Baselines, shortanswer.Family().Baselines...) {
		if !seen[b.Name] {
			seen[b.Name] = true
			out = append(out, b)
		}
	}
	return out
}

// check refuses a row without a picture, and whatever the rules of the answer refuse.
func check(row family.Row) []family.Problem {
	out := checkFiles(row)
	m, err := readMatch(row.Eval["match"])
	if err != nil {
		return append(out, family.Problem{Path: []string{"eval", "match"}, Message: "cannot be read"})
	}
	if m.Extract != "" && row.Eval["rubric"] != nil {
		out = append(out, family.Problem{Path: []string{"eval", "match", judged.Extract}, Message: "has no effect: a judge decides by the rubric", Fix: "remove it, or the rubric"})
	}
	if row.Input["choices"] != nil {
		if m.Type != "" || m.Tolerance != nil || m.Share != nil || m.Threshold != nil {
			return append(out, family.Problem{Path: []string{"eval", "match"}, Message: "says how answers are compared, but the row has choices",
				Fix: "remove type, tolerance, relative_tolerance and threshold, or the choices"})
		}
		return append(out, multiplechoice.Family().Check(row)...)
	}
	if p := m.misused(); p != nil {
		return append(out, *p)
	}
	if m.measured() {
		return append(out, checkMeasured(m, row.Eval["answer"])...)
	}
	short, err := shortEval(row.Eval)
	if err != nil {
		return append(out, family.Problem{Path: []string{"eval", "match"}, Message: "cannot be read"})
	}
	return append(out, renamed(shortanswer.Family().Check(family.Row{ID: row.ID, Input: row.Input, Eval: short}))...)
}

// renamed returns what short_answer says of a row with the names that it has here.
func renamed(found []family.Problem) []family.Problem {
	for i, p := range found {
		if len(p.Path) > 1 && p.Path[1] == "accepted_answers" {
			found[i].Path = []string{"eval", "answer"}
		}
		if len(p.Path) > 1 && p.Path[1] == "tolerance" {
			found[i].Path = []string{"eval", "match", "tolerance"}
		}
	}
	return found
}

// golds returns the accepted answers of a row as a list.
func golds(answer jsontext.Value) []jsontext.Value {
	if answer.Kind() != '[' {
		return []jsontext.Value{answer}
	}
	return elements(answer)
}
