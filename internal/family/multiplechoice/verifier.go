// Package multiplechoice is the multiple_choice family: a question, up to 26
// choices labelled A to Z, and an answer that names one of the right ones.
//
// # What counts as an answer
//
// A text names a choice when it is exactly one of these, spaces, quotes,
// brackets, * _ ` $ around it and . , ; : ! after it aside:
//
//   - the label of a choice, in either case;
//   - the text of a choice;
//   - a label, a separator and the text of the same choice: "C) 4".
//
// Texts are first compared as written, in NFC and with single spaces, then in the
// normal form of package textmatch. So choices that differ only in case, quotes
// or closing punctuation ("i++;" and "i++") stay distinct; of two that match a
// line, the longer one counts. The row's answer is read in the same way. A normal
// form that several choices share is right if all of them are, and ambiguous
// otherwise. A single letter in range is a label before it is a text.
//
// A reply is read in passages (see [reply.Passages]). A mark leads to a choice up
// to the end of the line, of the sentence, or to a reason; "option", "choice" and
// repeated leads may come between. A line that as a whole names a choice is
// unmarked, whatever words it contains. Without a mark, such lines count, and
// sentences that are only a label or that state a choice: "option C", "C is
// correct", "I choose C". A minus sign before a digit is never a separator.
//
// The highest rank at which a choice is named or mentioned decides. All passages
// of that rank that name a choice must agree, the last that mentions one must
// name it, and nothing after it may retract it. Everything else fails: lists of
// choices, echoes of the question and second thoughts.
package multiplechoice

import (
	"fmt"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
	"securebench/internal/family/textmatch/reply"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// newVerifier returns the family's verifier. It needs no sandbox.
func newVerifier(family.Resources) family.Verifier { return textmatch.NewVerifier(readRow) }

func readRow(v task.EvaluatorView) (textmatch.Scorer, error) {
	choices, answer := rowOf(v)
	k, err := newKey(choices, answer)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of task %s: %w", v.ID(), err)
	}
	question, _ := v.Get("question")
	text, _ := question.Text()
	k.question = number.NewQuestion(text, "")
	return k, nil
}

// Match scores a candidate.
func (k key) Match(candidate string) family.Verdict {
	metadata := map[string]any{
		"candidate_answer": textmatch.Excerpt(candidate),
		"expected_answer":  task.Redacted,
	}
	passages := reply.Passages(k.question, reply.Text(candidate), reply.Options{Labels: true})
	if len(passages) == 0 {
		return textmatch.Fail(verdict.EmptyCandidate, "the candidate is blank", metadata)
	}
	got, reason, message := k.decide(passages)
	switch {
	case reason != "":
		return textmatch.Fail(reason, message, metadata)
	case got.several() && got&^k.expected != 0:
		return textmatch.Fail(verdict.AmbiguousAnswer, "the candidate names several choices at once", metadata)
	case got&k.expected == 0:
		return textmatch.Fail(verdict.WrongAnswer, "the candidate names another choice", metadata)
	}
	return textmatch.Pass(metadata)
}

// decide returns the choice that the passages name, or why there is none. It is
// more than one where choices share the text that is given. The highest rank
// that names or hedges decides.
func (k key) decide(passages []reply.Passage) (set, verdict.Reason, string) {
	got, top, last, hedged := ^set(0), reply.Unmarked, -1, false
	claims := make([]named, len(passages))
	read := -1 // the line that was read to its end
	for i, p := range passages {
		if p.Line == read {
			continue
		}
		n, rank := k.read(p)
		if claims[i] = n; n.line {
			read = p.Line
		}
		if n.choices == 0 && !n.hedges || rank < top {
			continue
		}
		if rank > top {
			got, top = ^set(0), rank
		}
		if hedged = n.hedges; !hedged {
			got &= n.choices
		}
		last = i
	}
	switch {
	case last < 0:
		return 0, k.unnamed(passages[len(passages)-1].Text), "the candidate does not name exactly one choice"
	case hedged, got == ^set(0):
		return 0, verdict.AmbiguousAnswer, "the candidate mentions choices but does not name exactly one"
	case got == 0:
		return 0, verdict.AmbiguousAnswer, "the candidate names different choices"
	case k.takenBack(got, passages[last:], claims[last:]):
		return 0, verdict.AmbiguousAnswer, "the candidate retracts the choice that it names"
	}
	return got, "", ""
}

// takenBack reports whether what follows the deciding passage, the first, takes
// it back: the same line names another choice, or a sentence begins as one that
// offers another and speaks of one, or is short and next.
func (k key) takenBack(got set, passages []reply.Passage, claims []named) bool {
	for i, p := range passages[1:] {
		if claims[i+1].choices != 0 && p.Line == passages[0].Line && claims[i+1].choices&got == 0 {
			return true
		}
		if reply.Retracts(p.Text) && (i == 0 && textmatch.CountWords(p.Text, 5) < 5 || k.mentions(p.Text)&^got != 0) {
			return true
		}
	}
	return false
}
