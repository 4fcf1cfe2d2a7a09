// Package multiplechoice is the multiple_choice family: a question, up to 26
// choices labelled A to Z, and an answer that names one of the right ones.
//
// # What counts as an answer
//
// A line names a choice when the whole line, or what follows its leftmost lead,
// is exactly one of these, spaces, quotes, brackets, * _ ` $ around it and
// . , ; : ! behind it aside:
//
//   - the label of a choice, in either case;
//   - the text of a choice;
//   - a label, a separator and the text of the same choice: "C) 4".
//
// A text is compared as it is written first, in NFC and with single spaces, and
// only if no choice is written so in the normal form of package textmatch. So
// choices that differ in case, quotes or closing punctuation alone ("Aa" and
// "aa", "i++;" and "i++") are told apart; of two that stand in a line the
// longer one counts. The text of the row's answer is read in the same way. A
// text in normal form may be that of several choices: then it is right if all
// of them are, and ambiguous otherwise. Text that normalises to nothing names
// nothing.
//
// A lead is "final answer", "answer", "choice" or "option" as whole words in
// any case, then an optional "is" and an optional ":" or "-"; it may be
// repeated ("My choice is option C"). A minus sign in front of a digit is never
// taken for a separator. A negator in the lead's own clause, before the lead,
// voids it: "it is not true that the answer is C" names nothing. A lone letter
// in range is a label before it is a text, as it is in the row's answer.
// Otherwise the whole line as a choice's text is tried first, and nothing inside
// a text is looked at.
//
// The last line that is not blank must name a choice. If any line names one
// after an "answer" lead, all such lines must agree and no other line counts,
// the last one included; otherwise all naming lines must agree. Everything else
// fails, so neither a list of choices, nor an echo of the question, nor a
// second thought can pass.
package multiplechoice

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
	"securebench/internal/task"
)

// NewVerifier returns the family's verifier. It needs no sandbox.
func NewVerifier(family.Resources) family.Verifier { return textmatch.NewVerifier(readRow) }

func readRow(v task.EvaluatorView) (textmatch.Scorer, error) {
	choices, ok := v.Get("choices")
	if !ok {
		return nil, fmt.Errorf("scoring task %s: the row has no choices", v.ID())
	}
	var texts []string
	if err := json.Unmarshal(choices.Value, &texts); err != nil {
		return nil, fmt.Errorf("reading the choices of task %s: %w", v.ID(), err)
	}
	answer, _ := v.Get("answer")
	k, err := newKey(texts, answer.Value)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of task %s: %w", v.ID(), err)
	}
	return k, nil
}

// Match scores a candidate.
func (k key) Match(candidate string) family.Verdict {
	metadata := map[string]any{
		"candidate_answer": textmatch.Excerpt(candidate),
		"expected_answer":  task.Redacted,
	}
	lines := textmatch.Lines(candidate)
	if len(lines) == 0 {
		return textmatch.Fail(family.EmptyCandidate, "the candidate is blank", metadata)
	}
	got, reason, message := k.decide(lines)
	switch {
	case reason != "":
		return textmatch.Fail(reason, message, metadata)
	case got.several() && got&^k.expected != 0:
		return textmatch.Fail(family.AmbiguousAnswer, "the candidate names several choices at once", metadata)
	case got&k.expected == 0:
		return textmatch.Fail(family.WrongAnswer, "the candidate names another choice", metadata)
	}
	return textmatch.Pass(metadata)
}

// decide returns the choice that the lines name, or why there is none. It is
// more than one where choices share the text that the lines give.
func (k key) decide(lines []string) (set, family.Reason, string) {
	all, answers, anyAnswer := ^set(0), ^set(0), false
	var last named
	for _, line := range lines {
		last = k.line(line)
		if last.choices == 0 {
			continue
		}
		all &= last.choices
		if last.answer {
			anyAnswer = true
			answers &= last.choices
		}
	}
	if last.choices == 0 {
		return 0, k.unnamed(lines[len(lines)-1]), "the last line does not name exactly one choice"
	}
	got := all
	if anyAnswer {
		got = answers
	}
	if got == 0 {
		return 0, family.AmbiguousAnswer, "the candidate names choices that contradict each other"
	}
	return got, "", ""
}
