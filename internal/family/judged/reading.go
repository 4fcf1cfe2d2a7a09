package judged

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/judge"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Extract is the key of eval.match that asks for it.
const Extract = "extract"

// Reads reports whether a judge reads the answers of a row's candidates that state none by
// rule: its eval.match has extract: judge.
func Reads(v task.EvaluatorView) bool {
	match, _ := v.Get("match")
	var of struct {
		Extract string `json:"extract"`
	}
	return json.Unmarshal(match.Value, &of) == nil && of.Extract == answer.ByJudge && !Asks(v)
}

// ReadCanaries returns what a judge is tried with on such a row: a right answer, and a
// wrong one if it is known.
func ReadCanaries(v task.EvaluatorView, right, wrong string) (judge.Specimen, bool) {
	if !Reads(v) || right == "" {
		return judge.Specimen{}, false
	}
	return judge.Specimen{Question: judge.NewReading(v.ID(), asked(v)), Answer: right, Other: wrong}, true
}

// Listening has a judge read the answers of candidates that state none by the rule of a
// row, if there is a judge and the row asks for that.
func Listening(j judge.Judge, read func(family.Case) (textmatch.Scorer, error)) func(family.Case) (textmatch.Scorer, error) {
	return func(c family.Case) (textmatch.Scorer, error) {
		s, err := read(c)
		rule, ok := s.(textmatch.Listener)
		if err != nil || j == nil || !ok || !Reads(c.Evaluator) {
			return s, err
		}
		q := judge.NewReading(c.Evaluator.ID(), asked(c.Evaluator))
		q.Attempt = c.Attempt
		return listener{rule, j, q}, nil
	}
}

// listener decides by the rule of a row. Of a candidate that states no answer by it, a
// judge reads one, and the rule decides about that.
type listener struct {
	textmatch.Listener
	judge    judge.Judge
	question judge.Question // without the candidate
}

// Score decides by the rule, and has the judge read what states nothing by it. About what
// was cut off the rule decides alone: it might have gone on.
func (l listener) Score(ctx context.Context, candidate string, cut bool) (family.Verdict, error) {
	v, err := l.Listener.Score(ctx, candidate, cut)
	if err != nil || cut || v.Outcome != verdict.Failed || !l.Silent(candidate) {
		return v, err
	}
	q := l.question
	q.Candidate = answer.Said(candidate)
	q.Right = func(ctx context.Context, stated string) (bool, error) {
		of, err := l.Listener.Score(ctx, stated, false)
		return of.Outcome == verdict.Passed, err
	}
	d, err := l.judge.Decide(ctx, q)
	if err != nil {
		return family.Verdict{}, err
	}
	if d.Judgement == nil && d.Outcome == verdict.Failed {
		return v, nil // it was not asked: the text is too long, or says nothing
	}
	read := family.Judged(d)
	read.Labels = append(slices.Clone(d.Labels), verdict.JudgeRead)
	if read.Metadata, read.Extraction = v.Metadata, answer.ByJudge; d.Answer != "" {
		read.Extracted = []byte(d.Answer)
	}
	return read, nil
}
