package multimodalqa

import (
	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/family/judged"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/textmatch"
	"securebench/internal/judge"
	"securebench/internal/task"
)

// firstAnswer returns the first of the row's answers, as a text.
func firstAnswer(v task.EvaluatorView) (text string) {
	answer, ok := v.Get("answer")
	if all := golds(answer.Value); ok && len(all) > 0 {
		if text = string(all[0]); all[0].Kind() == '"' && json.Unmarshal(all[0], &text) != nil {
			return ""
		}
	}
	return text
}

// canaries returns what a judge is tried with on a row. It reads what the row asks, its
// rubric and its answer; it gets none of the pictures.
func canaries(v task.EvaluatorView) (judge.Specimen, bool) {
	switch {
	case judged.Asks(v):
		return judged.Canaries(v, firstAnswer(v))
	case hasChoices(v):
		return multiplechoice.Family().Canaries(v)
	}
	return judged.ReadCanaries(v, firstAnswer(v), "")
}

// newJudged returns the verifier of the rows that a judge decides.
func newJudged(r family.Resources) family.Verifier {
	return textmatch.NewVerifier(func(c family.Case) (textmatch.Scorer, error) {
		return judged.New(r.Judge, c, firstAnswer(c.Evaluator))
	})
}
