// Package judged is what families share some of whose rows have a rubric that a judge
// decides, or answers that it reads where their rule finds none. It keeps the judge apart from the rules on texts.
package judged

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/judge"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Asks reports whether a judge decides a row.
func Asks(v task.EvaluatorView) bool {
	rubric, _ := v.Get("rubric")
	return judge.Needed(rubric.Value)
}

// question returns what a judge decides about a row, without an attempt. No reference
// is "".
func question(v task.EvaluatorView, reference string) (judge.Question, error) {
	rubric, _ := v.Get("rubric")
	r, err := judge.ParseRubric(rubric.Value)
	return judge.Question{Task: v.ID(), Asked: asked(v), Rubric: r, Reference: reference}, err
}

// Canaries returns what a judge is tried with on a row; false if it has nothing of the
// kind.
func Canaries(v task.EvaluatorView, reference string) (judge.Specimen, bool) {
	q, err := question(v, reference)
	if err != nil || !Asks(v) {
		return judge.Specimen{}, false
	}
	var own struct {
		Pass []string `json:"pass"`
		Fail []string `json:"fail"`
	}
	if c, ok := v.Get("canaries"); ok && json.Unmarshal(c.Value, &own) != nil {
		return judge.Specimen{}, false
	}
	s := judge.Specimen{Question: q, Pass: own.Pass, Fail: own.Fail}
	if q.Reference != "" {
		s.Pass = append([]string{q.Reference}, s.Pass...)
	}
	return s, len(s.Pass) > 0 || len(s.Fail) > 0
}

// New returns the scorer of a row whose rubric a judge decides. Without one the row stays
// pending.
func New(j judge.Judge, c family.Case, reference string) (textmatch.Scorer, error) {
	q, err := question(c.Evaluator, reference)
	if err != nil {
		return nil, fmt.Errorf("reading the rubric of task %s: %w", c.Evaluator.ID(), err)
	}
	q.Attempt = c.Attempt
	return scorer{j, q}, nil
}

type scorer struct {
	judge    judge.Judge
	question judge.Question // without the candidate
}

// Score asks the judge. Reasoning blocks and stop tokens of a chat model are not part of
// the candidate.
func (s scorer) Score(ctx context.Context, candidate string, _ bool) (family.Verdict, error) {
	if s.judge == nil {
		metadata := map[string]any{"candidate_answer": textmatch.Excerpt(candidate)}
		return family.Verdict{
			Outcome: verdict.Pending, Reason: verdict.NoJudge, Message: "scoring a text rubric requires a judge",
			Containment: verdict.Passive, Basis: verdict.Judged, Metadata: verdict.NewMetadata(metadata),
		}, nil
	}
	q := s.question
	q.Candidate = answer.Said(candidate)
	d, err := s.judge.Decide(ctx, q)
	if err != nil {
		return family.Verdict{}, err
	}
	v := family.Judged(d)
	v.Metadata = verdict.NewMetadata(map[string]any{"rubric_type": judge.RubricType, "candidate_answer": textmatch.Excerpt(candidate), "expected_answer": task.Redacted})
	return v, nil
}

// asked returns the public values of a row, as a judge reads what was asked.
func asked(v task.EvaluatorView) string {
	var parts []string
	for _, r := range v.Payload() {
		if r.Lane != task.Public {
			continue
		}
		text, ok := r.Text()
		if !ok {
			text = string(r.Value)
		}
		parts = append(parts, r.Name+": "+text)
	}
	return strings.Join(parts, "\n\n")
}
