package shortanswer

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/checker"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// byChecker is the match.type of rows that a file of the pack judges.
const byChecker = "checker"

// checkerOf returns the checker that eval.match names, or false.
func checkerOf(match jsontext.Value) (o checker.Options, ok bool) {
	var m struct {
		Type string `json:"type"`
		checker.Options
	}
	if len(match) == 0 || json.Unmarshal(match, &m) != nil {
		return o, false
	}
	return m.Options, m.Type == byChecker
}

// boxed reports whether a checker of the pack judges a row.
func boxed(v task.EvaluatorView) bool {
	match, _ := v.Get("match")
	_, ok := checkerOf(match.Value)
	return ok
}

// checked is a row that a checker of the pack judges.
type checked struct {
	checkers *checker.Checkers
	options  checker.Options
	c        family.Case
	row      jsontext.Value
	question *answer.Question
}

// readChecked reads such a row.
func readChecked(checkers *checker.Checkers, o checker.Options, c family.Case) (*checked, error) {
	row, err := checker.Row(c.Evaluator.ID(), c.Evaluator.Payload(), nil)
	asked := answer.Ask(textmatch.TextOf(c.Evaluator, "question"), "", vocabulary.Every)
	return &checked{checkers, o, c, row, asked}, err
}

// Score asks the checker. Of a candidate that was cut off only what is marked is an answer.
func (r *checked) Score(ctx context.Context, text string, cut bool) (family.Verdict, error) {
	metadata := map[string]any{"candidate_answer": textmatch.Excerpt(text), "expected_answer": task.Redacted, "match_strategy": byChecker}
	q := checker.Question{Text: text, Row: r.row}
	if stated, ok := answer.Read(text, r.question, answer.Options{}).Stated(cut); ok {
		q.Answer = &stated
	}
	v, err := r.checkers.Verdict(ctx, r.c, r.options, q)
	v.Metadata = verdict.NewMetadata(metadata)
	return v, err
}

// judging is the verifier of the family, with the twins of rows that a checker judges.
type judging struct{ family.Verifier }

// Twins returns what no checker should take: a row's own solution with its words in
// another order, and an answer to anything.
func (judging) Twins(_ context.Context, c family.Case) ([]family.Twin, error) {
	if !boxed(c.Evaluator) {
		return nil, nil
	}
	return checker.Twins(reference(c.Evaluator))
}

var _ family.Twinner = judging{}
