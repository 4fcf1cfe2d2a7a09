// Package shortanswer is the short_answer family: a question and the answers
// that are accepted, each a string or a number.
//
// # What counts as an answer
//
// A reply is read in passages (see [reply.Passages]). The highest
// rank that is present decides; without a mark it is the last line, less what
// only takes leave.
//
// An accepted answer that is a number (see [number.Parse]) is matched
// as a number. Which number a reply states depends on the reply and the question
// alone (see [number.Question.FindNumber]): all passages of the deciding rank
// that state exactly one must agree, and the last that holds any must be among
// them. It must equal the accepted one as a decimal, or lie within the row's
// tolerance of it. The tolerance is absolute and its bound is within; there is
// no hidden relative one. Percent and currency signs count as
// [number.Number.Matches] says.
//
// Any other accepted answer is matched as text, in the normal form of package
// textmatch: it equals what is marked, up to the end of the line or of the
// sentence; or it stands there next to at most 11 other words, with a space, a
// quote or one of . , ; : ! ? ( ) [ ] * on both sides, and every other word is a
// frame word (see [textmatch.Frame.Has]) or a word of the question. Where the
// accepted answer itself occurs in the question or its format only frame words
// may stand next to it, and next to one that is made of frame words only a few of
// those. Words that negate or offer a second answer (see
// [textmatch.IsBarred]) never may. All passages of the deciding rank must give
// an accepted answer; long ones before the last don't count. Without a mark the
// first sentence of the line must, and each further one unless it explains. A
// text that begins with yes, no, true or false and a comma or dash gives that
// word, whatever explanation follows.
//
// # Declared matching
//
// The optional hidden value eval.match replaces these rules:
//
//	{"type": "number"|"text"|"span"|"set", "marker": "...",
//	 "ignore_case": true, "max_extra_words": 8}
//
// With number, every accepted answer must be a number and the number rule
// holds. With text, all accepted answers are text, numbers as the row wrote
// them, and one must equal what is marked, or the line. With span, one must
// stand there, bounded as above, next to at most max_extra_words other
// words (8 by default), none of which negates or says "or". With set, it
// is a list and the accepted answers are its elements: each exactly once, in
// any order, and nothing else. A list is separated by ";", or else by "," and
// "and"; a comma between digits separates unless it makes a thousands group. An
// accepted answer that holds a separator ("salt and pepper") is not cut where an
// element begins with it. Elements that are numbers are compared as numbers,
// with the row's tolerance; where an element fits several accepted answers, any
// way to pair them all will do. A set has at most 256 accepted answers.
//
// A marker takes the place of the usual ones: the last line must contain it,
// and what follows its leftmost place is the answer. ignore_case is true by
// default and covers the marker; max_extra_words belongs to span alone.
package shortanswer

import (
	"fmt"

	"securebench/internal/family"
	"securebench/internal/family/checker"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/reply"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// newVerifier returns the family's verifier. Only rows that a checker judges need
// sandboxes.
func newVerifier(r family.Resources) family.Verifier {
	checkers := checker.New(r)
	return judging{textmatch.NewJudging(readCase(checkers), checkers.Close)}
}

func readRow(v task.EvaluatorView) (textmatch.Scorer, error) {
	accepted, ok := v.Get("accepted_answers")
	if !ok {
		return nil, fmt.Errorf("scoring task %s: %w", v.ID(), errNoAnswers)
	}
	tolerance, _ := v.Get("tolerance")
	match, _ := v.Get("match")
	k, err := newKey(accepted.Value, tolerance.Value, match.Value)
	if err != nil {
		return nil, fmt.Errorf("scoring task %s: %w", v.ID(), err)
	}
	question, _ := v.Get("question")
	text, _ := question.Text()
	format, _ := v.Get("answer_format")
	hint, _ := format.Text()
	k.ask(text, hint)
	return k, nil
}

// Match scores a candidate.
func (k *key) Match(candidate string) family.Verdict {
	metadata := map[string]any{
		"candidate_answer":      textmatch.Excerpt(candidate),
		"expected_answer":       task.Redacted,
		"accepted_answer_count": len(k.accepted),
		"matched_answer_index":  nil,
		"match_strategy":        nil,
		"tolerance":             nil,
	}
	if k.tolerance != nil {
		metadata["tolerance"] = task.Redacted
	}
	text := reply.Text(candidate)
	if textmatch.LastLine(text) == "" {
		return textmatch.Fail(verdict.EmptyCandidate, "the candidate is blank", metadata)
	}
	v := k.decide(text)
	if v.reason != "" {
		return textmatch.Fail(v.reason, v.message, metadata)
	}
	metadata["match_strategy"] = v.strategy
	if v.index >= 0 {
		metadata["matched_answer_index"] = v.index
	}
	return textmatch.Pass(metadata)
}
