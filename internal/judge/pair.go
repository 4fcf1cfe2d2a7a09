package judge

import (
	"context"
	"slices"
	"strings"

	"securebench/internal/verdict"
)

// Better returns the question whether the first of two texts meets the criteria of a
// question better than the second. Every line says whose it is, so that neither text can
// write lines of the other.
func Better(q Question, first, second string) Question {
	criteria := ""
	for _, c := range q.Rubric.Criteria {
		criteria += "\n- " + c.Text
	}
	q.Candidate = lines("FIRST", first) + "\n" + lines("SECOND", second)
	q.Rubric = Rubric{Criteria: []Criterion{{ID: "better", Required: true, Text: "The text holds two answers: lines that begin with FIRST| are one, lines that begin with SECOND| are the other. " +
		"The first one meets the following better than the second:" + criteria}}, Pass: 1, Blind: q.Rubric.Blind,
		MaxWords: 2*q.Rubric.MaxWords + strings.Count(q.Candidate, "\n") + 1}
	return q
}

// lines marks each line of a text.
func lines(mark, text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, mark+"| "+line)
	}
	return strings.Join(out, "\n")
}

// Prefer has a judge compare two texts in both orders, and returns the place of the one
// that it prefers, or -1. The decision has a reason if it decides nothing, as of a judge
// that prefers the same place in both orders.
func Prefer(ctx context.Context, j Judge, q Question, texts [2]string) (int, Decision, error) {
	var both Decision
	var better [2]bool
	for order := range better {
		d, err := j.Decide(ctx, Better(q, texts[order], texts[1-order]))
		if err != nil {
			return -1, d, err
		}
		both.add(d)
		if d.Outcome == verdict.Pending || d.Reason == verdict.JudgeRefused || d.Reason == verdict.JudgeInconsistent {
			both.Outcome, both.Reason, both.Message = d.Outcome, d.Reason, d.Message
			return -1, both, nil
		}
		better[order] = d.Outcome == verdict.Passed
	}
	switch better {
	case [2]bool{true, false}:
		return 0, both, nil
	case [2]bool{false, true}:
		return 1, both, nil
	case [2]bool{true, true}:
		both.Outcome, both.Reason, both.Message = verdict.Failed, verdict.JudgeInconsistent, "the judge prefers the same place in both orders"
	}
	return -1, both, nil
}

// add adds what led to another decision of the same attempt.
func (d *Decision) add(o Decision) {
	d.Labels = o.Labels
	d.Exchanges = append(d.Exchanges, o.Exchanges...)
	if d.Usage == nil {
		d.Usage = map[string]int64{}
	}
	add(d.Usage, o.Usage)
	if o.Judgement == nil {
		return
	}
	if d.Judgement == nil {
		d.Judgement = &verdict.Judgement{}
	}
	j := *o.Judgement
	j.Votes = slices.Concat(d.Judgement.Votes, j.Votes)
	j.Passed += d.Judgement.Passed
	if was := d.Judgement.Cost; was != nil && j.Cost != nil {
		sum := *was + *j.Cost
		j.Cost = &sum
	}
	d.Judgement = &j
}
