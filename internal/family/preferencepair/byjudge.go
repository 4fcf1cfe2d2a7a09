package preferencepair

import (
	"context"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/judge"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// isJudged reports whether a judge says which candidate of a row is right: it has a rubric
// and no preference.
func isJudged(v task.EvaluatorView) bool { return goldOf(v).right == 0 }

// questionOf returns what a judge is asked about a row, without the pair and the attempt.
func questionOf(v task.EvaluatorView) (judge.Question, error) {
	rubric, _ := v.Get("rubric")
	r, err := judge.ParseRubric(rubric.Value)
	q := judge.Question{Task: v.ID(), Rubric: r}
	for _, name := range []string{"prompt", "criteria"} { // not the pair: its places say nothing
		if value, ok := v.Get(name); ok {
			q.Asked += name + ": " + read(value.Value).text + "\n\n"
		}
	}
	return q, err
}

// meaningless is worse than any answer.
const meaningless = "qwzxvbnk"

// canaries returns what a judge is tried with on a row: an answer is better than a
// meaningless word, and no better than itself.
func canaries(v task.EvaluatorView) (judge.Specimen, bool) {
	q, err := questionOf(v)
	if err != nil || !isJudged(v) {
		return judge.Specimen{}, false
	}
	a, _ := pair(v)
	better := judge.Better(q, a.text, meaningless)
	return judge.Specimen{Question: better, Pass: []string{better.Candidate},
		Fail: []string{judge.Better(q, meaningless, a.text).Candidate, judge.Better(q, a.text, a.text).Candidate}}, true
}

// byJudge scores rows whose right candidate is the one that a judge prefers.
type byJudge struct {
	scorer
	judge    judge.Judge
	question judge.Question
	texts    [2]string
	ties     bool
}

// newByJudge returns the scorer of such a row.
func newByJudge(j judge.Judge, c family.Case, s scorer) (textmatch.Scorer, error) {
	q, err := questionOf(c.Evaluator)
	q.Attempt = c.Attempt
	a, b := pair(c.Sandbox)
	return byJudge{s, j, q, [2]string{a.text, b.text}, allowsTie(c.Evaluator)}, err
}

// Score asks which candidate is right, unless the agent's texts give no verdict.
func (p byJudge) Score(ctx context.Context, text string, cut bool) (family.Verdict, error) {
	given := func(right compare.Set) family.Verdict {
		p.right = right
		v := p.match(text, cut)
		v.Basis = verdict.Judged
		return v
	}
	void := given(tie)
	if void.Outcome != verdict.Passed && given(first).Outcome != verdict.Passed && given(second).Outcome != verdict.Passed {
		return void, nil
	}
	prefers, d, err := judge.Prefer(ctx, p.judge, p.question, p.texts)
	if err != nil {
		return family.Verdict{}, err
	}
	if d.Reason == "" && prefers < 0 && !p.ties {
		d.Outcome, d.Reason, d.Message = verdict.Failed, verdict.JudgeInconsistent, "the judge prefers neither candidate, and the row allows no tie"
	}
	if d.Reason != "" {
		v := family.Judged(d)
		v.Metadata = void.Metadata
		return v, nil
	}
	v := given(map[int]compare.Set{-1: tie, 0: first, 1: second}[prefers])
	d.Outcome, d.Reason, d.Message = v.Outcome, v.Reason, v.Message
	v.Judge, v.Labels = &d, d.Labels
	return v, nil
}
