// Package freeresponse is the free_response family: a prompt, and a rubric
// that scores what is written about it.
//
// # What counts as an answer
//
// A rubric that is an object of type contains_any lists accepted answers and,
// optionally, rejected ones. An accepted answer matches where it stands in the
// candidate as a span with no word character next to it and the candidate has
// at most 12 words more than it, or where the token F1 of the two reaches
// min_token_f1 (1 by default). A rejected answer matches as a span of a
// candidate of any length, or by a token F1 that reaches the threshold and that
// of the best accepted answer. The candidate passes if an accepted answer
// matches and no rejected one does.
//
// Tokens are runs of a-z and 0-9 in lower case, "u.s." read as "united states",
// without a fixed list of stop words. What is beyond ASCII is not a token, but a word
// that contains some is another word, so look-alikes and hidden characters never
// fold onto an answer. Negators are tokens: no, not, never,
// neither, nor, and n't and cannot, which are read as not.
//
// The score of a rejected answer leaves out the words that neither it nor an
// accepted answer has, and repetitions; what it is compared with leaves out the
// words that the rubric does not know. So words that no accepted answer has
// cannot dilute it, and appending them never turns a failure into a pass.
//
// Reasoning blocks and stop tokens of a chat model are not part of the candidate
// (see [answer.Said]).
//
// Overlap of words is not meaning, so each of these verdicts is labelled [heuristic]. A
// rubric that is a string, or of type judge, needs a judge: without one the task stays
// pending with reason no_judge.
package freeresponse

import (
	"context"
	"fmt"

	"securebench/internal/family"
	"securebench/internal/family/judged"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/judge"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// heuristic labels verdicts that rest on shared words.
const heuristic = "heuristic"

// NewVerifier returns the family's verifier. It needs no sandbox.
func NewVerifier(r family.Resources) family.Verifier {
	return textmatch.NewVerifier(func(c family.Case) (textmatch.Scorer, error) { return readRow(r.Judge, c) })
}

func readRow(j judge.Judge, c family.Case) (textmatch.Scorer, error) {
	if judged.Asks(c.Evaluator) {
		return judged.New(j, c, referenceAnswer(c.Evaluator))
	}
	value, _ := c.Evaluator.Get("rubric")
	r, err := newRubric(value.Value)
	if err != nil {
		return nil, fmt.Errorf("reading the rubric of task %s: %w", c.Evaluator.ID(), err)
	}
	return r, nil
}

// referenceAnswer returns the row's reference, "" if it has none.
func referenceAnswer(v task.EvaluatorView) string {
	return textmatch.TextOf(v, "reference_answer")
}

// Score scores a candidate.
func (r *rubric) Score(_ context.Context, candidate string, _ bool) (family.Verdict, error) {
	return r.match(candidate), nil
}

func (r *rubric) match(candidate string) family.Verdict {
	s := r.score(answer.Said(candidate))
	metadata := r.metadata(candidate, s)
	v := textmatch.Pass(metadata)
	switch {
	case s.blank:
		v = textmatch.Fail(verdict.EmptyCandidate, "the candidate is blank", metadata)
	case s.rejected >= 0 || s.accepted < 0: // which of them would help to find either
		v = textmatch.Fail(verdict.WrongAnswer, "the candidate does not meet the rubric", metadata)
	}
	v.Labels = []string{heuristic}
	return v
}

// metadata has the reference's keys. The threshold is a hidden value where the
// row gives one.
func (r *rubric) metadata(candidate string, s score) map[string]any {
	m := map[string]any{
		"rubric_type":           containsAny,
		"candidate_answer":      textmatch.Excerpt(candidate),
		"expected_answer":       task.Redacted,
		"accepted_answer_count": len(r.accepted),
		"rejected_answer_count": len(r.rejected),
		"matched_answer_index":  index(s.accepted),
		"rejected_answer_index": index(s.rejected),
		"accepted_token_f1":     s.acceptedF1.float(),
		"rejected_token_f1":     s.rejectedF1.float(),
		"min_token_f1":          1.0,
	}
	if r.declared {
		m["min_token_f1"] = task.Redacted
	}
	return m
}

// index is i for metadata, or nil for a negative one.
func index(i int) any {
	if i < 0 {
		return nil
	}
	return i
}
