package multimodalqa

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/family/judged"
	"securebench/internal/family/textmatch"
	"securebench/internal/judge"
	"securebench/internal/task"
)

// isJudged reports whether a judge decides the row. It reads what the row asks, its
// rubric and its answer; it gets none of the pictures.
func isJudged(v task.EvaluatorView) bool {
	rubric, _ := v.Get("rubric")
	return judge.Needed(rubric.Value)
}

// question returns what a judge decides about a row, without an attempt.
func question(v task.EvaluatorView) (judge.Question, error) {
	rubric, _ := v.Get("rubric")
	r, err := judge.ParseRubric(rubric.Value)
	return judge.Question{Task: v.ID(), Asked: judged.Asked(v), Rubric: r, Reference: firstAnswer(v)}, err
}

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

// canaries returns what a judge is tried with on the row.
func canaries(v task.EvaluatorView) (judge.Specimen, bool) {
	q, err := question(v)
	if err != nil || !isJudged(v) {
		return judge.Specimen{}, false
	}
	s := judge.Specimen{Question: q}
	if q.Reference != "" {
		s.Pass = []string{q.Reference}
	}
	return s, len(s.Pass) > 0
}

// newJudged returns the verifier of the rows that a judge decides.
func newJudged(r family.Resources) family.Verifier {
	return textmatch.NewJudging(func(c family.Case) (textmatch.Scorer, error) {
		q, err := question(c.Evaluator)
		if err != nil {
			return nil, fmt.Errorf("reading the rubric of task %s: %w", c.Evaluator.ID(), err)
		}
		q.Attempt = c.Attempt
		return judged.New(r.Judge, q), nil
	})
}
