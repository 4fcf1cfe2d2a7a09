// Package shortanswer is the short_answer family: a question and the answers that are
// accepted, each a string or a number.
//
// What a reply states, and whether that is understood whole, is decided by package
// answer; package compare says whether it is an accepted answer. An accepted answer that
// is a number is compared as one, and before any text; a date, a time of day or a formula
// as what it is; any other as text in the normal form of package textmatch.
//
// # Declared matching
//
// The optional hidden value eval.match selects another comparison:
//
//	{"type": "number"|"text"|"span"|"set"|"regex", "marker": "…", "ignore_case": true,
//	 "max_extra_words": 8, "language": ["en"], "marks": ["…"], "pattern": "…(…)"}
//
// With number, every accepted answer must be a number. With text, one must equal what
// is stated, numbers as the row wrote them. With span, one must stand there next to at
// most max_extra_words other words, none of which negates or says "or". With set, what
// is stated is a list and the accepted answers are its elements: each exactly once, in
// any order, and nothing else. With regex, an accepted answer is a regular expression for
// the whole of what is stated.
//
// A marker takes the place of the usual marks: the last line must contain it, and what
// follows its leftmost place is the answer. Marks are added to those that are known, and
// a pattern's group is what it states. A language narrows the vocabularies that apply.
package shortanswer

import (
	"context"
	"fmt"

	"securebench/internal/family"
	"securebench/internal/family/checker"
	"securebench/internal/family/judged"
	"securebench/internal/family/mathmatch"
	"securebench/internal/family/textmatch"
	"securebench/internal/task"
)

// newVerifier returns the family's verifier. Only rows that a checker judges, or that
// compare mathematical expressions, need sandboxes.
func newVerifier(r family.Resources) family.Verifier {
	checkers, comparer := checker.New(r), mathmatch.New(r)
	read := func(c family.Case) (textmatch.Scorer, error) { return readRow(c, checkers, comparer) }
	return judging{textmatch.NewVerifier(judged.Listening(r.Judge, read), checkers.Close, comparer.Close)}
}

func readRow(c family.Case, checkers *checker.Checkers, comparer *mathmatch.Comparer) (textmatch.Scorer, error) {
	v := c.Evaluator
	match, _ := v.Get("match")
	if o, ok := checkerOf(match.Value); ok {
		return readChecked(checkers, o, c)
	}
	accepted, _ := v.Get("accepted_answers")
	tolerance, _ := v.Get("tolerance")
	k, err := newKey(accepted.Value, tolerance.Value, match.Value,
		textmatch.TextOf(v, "question"), textmatch.TextOf(v, "answer_format"))
	if err != nil {
		return nil, fmt.Errorf("scoring task %s: %w", v.ID(), err)
	}
	if k.rule == byMath {
		return newMathJudge(k, golds(accepted.Value), comparer, c)
	}
	return k, nil
}

// Score scores a candidate. Of one that was cut off only what is marked counts.
func (k *key) Score(_ context.Context, candidate string, cut bool) (family.Verdict, error) {
	return k.match(candidate, cut), nil
}

func (k *key) match(candidate string, cut bool) family.Verdict {
	metadata := k.metadata(candidate)
	v := k.decide(candidate, cut)
	if v.reason != "" {
		return textmatch.Fail(v.reason, v.message, metadata)
	}
	metadata["match_strategy"] = v.strategy
	if v.index >= 0 {
		metadata["matched_answer_index"] = v.index
	}
	return textmatch.Pass(metadata)
}

// metadata is what every verdict has.
func (k *key) metadata(candidate string) map[string]any {
	metadata := map[string]any{
		"candidate_answer":      textmatch.Excerpt(candidate),
		"expected_answer":       task.Redacted,
		"accepted_answer_count": len(k.members.Accepted),
		"matched_answer_index":  nil,
		"match_strategy":        nil,
		"tolerance":             nil,
	}
	if k.members.Tolerance != nil {
		metadata["tolerance"] = task.Redacted
	}
	return metadata
}
