// Package judged is what families share some of whose rows have a rubric that a judge
// decides. It keeps the judge apart from the rules on texts.
package judged

import (
	"context"
	"strings"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/judge"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// New returns the scorer of a row whose rubric a judge decides. Without one the row stays
// pending.
func New(j judge.Judge, q judge.Question) textmatch.Scorer { return scorer{j, q} }

type scorer struct {
	judge    judge.Judge
	question judge.Question // without the candidate
}

var _ textmatch.Judge = scorer{}

// Match leaves the candidate to a judge.
func (s scorer) Match(candidate string) family.Verdict {
	return family.Verdict{Outcome: verdict.Pending, Reason: verdict.NoJudge, Message: "scoring a text rubric requires a judge",
		Containment: verdict.Passive, Basis: verdict.Judged, Metadata: verdict.NewMetadata(map[string]any{"candidate_answer": textmatch.Excerpt(candidate)})}
}

// Judge asks the judge. Reasoning blocks and stop tokens of a chat model are not part of
// the candidate.
func (s scorer) Judge(ctx context.Context, candidate string) (family.Verdict, error) {
	if s.judge == nil {
		return s.Match(candidate), nil
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

// Asked returns the public values of a row, as a judge reads what was asked.
func Asked(v task.EvaluatorView) string {
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
