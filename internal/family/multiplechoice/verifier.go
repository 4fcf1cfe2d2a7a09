// Package multiplechoice is the multiple_choice family: a question, up to 26 choices
// labelled A to Z, and an answer that names one of the right ones.
//
// What a reply states, and whether that is understood whole, is decided by package
// answer; [compare.Choices] says which choice it names: by its label, its text, or a
// label and the text of the same choice.
//
// Texts are first compared as written, in NFC and with single spaces, then in the normal
// form of package textmatch. So choices that differ only in case, quotes or closing
// punctuation ("i++;" and "i++") stay distinct. The row's answer is read in the same way.
// A normal form that several choices share is right if all of them are, and ambiguous
// otherwise. A single letter in range is a label before it is a text.
package multiplechoice

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/judged"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

var errNoValidAnswer = errors.New("the answer does not name a choice")

// A key is the choices of a row and which of them are right.
type key struct {
	choices  *compare.Choices
	expected compare.Set
	question *answer.Question
	options  answer.Options
}

// newKey reads choices, answer and match of a row, which may be absent, and its question. A
// string that names no choice makes a key that nothing matches, as in the reference;
// anything else that names no choice is an error.
func newKey(choices []string, gold, match jsontext.Value, question string) (key, error) {
	read, err := compare.NewChoices(choices)
	if err != nil {
		return key{}, err
	}
	options, in, err := declared(match)
	if err != nil {
		return key{}, err
	}
	k := key{choices: read, question: answer.Ask(question, "", in), options: options}
	right := Right(choices, gold)
	if len(right) == 0 && !bytes.ContainsRune(gold, '"') {
		return key{}, errNoValidAnswer
	}
	for _, i := range right {
		k.expected |= 1 << i
	}
	return k, nil
}

// declared reads what a row says about where its answer is, which may be absent.
func declared(match jsontext.Value) (o answer.Options, in vocabulary.Languages, err error) {
	var d answer.Declared
	if len(match) > 0 {
		if err := json.Unmarshal(match, &d, json.RejectUnknownMembers(true)); err != nil {
			return o, 0, fmt.Errorf("reading match: %w", err)
		}
	}
	o.Labels = true
	in, err = d.Apply(&o)
	return o, in, err
}

// newVerifier returns the family's verifier. It needs no sandbox.
func newVerifier(r family.Resources) family.Verifier {
	return textmatch.NewVerifier(judged.Listening(r.Judge, readRow))
}

func readRow(c family.Case) (textmatch.Scorer, error) {
	v := c.Evaluator
	choices, gold := rowOf(v)
	match, _ := v.Get("match")
	k, err := newKey(choices, gold, match.Value, textmatch.TextOf(v, "question"))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of task %s: %w", v.ID(), err)
	}
	return k, nil
}

// Score scores a candidate. Of one that was cut off only what is marked counts.
func (k key) Score(_ context.Context, candidate string, cut bool) (family.Verdict, error) {
	return k.match(candidate, cut), nil
}

// Silent reports whether a reply names no choice.
func (k key) Silent(candidate string) bool {
	return answer.Silent(answer.Read(candidate, k.question, k.options), k.choices)
}

func (k key) match(candidate string, cut bool) family.Verdict {
	metadata := map[string]any{
		"candidate_answer": textmatch.Excerpt(candidate),
		"expected_answer":  task.Redacted,
	}
	reply := answer.Read(candidate, k.question, k.options)
	reading, reason, message := answer.Decide(reply, k.choices, cut)
	if reason != "" {
		return textmatch.Fail(reason, message, metadata)
	}
	switch got := reading.Value; {
	case got.Several() && got&^k.expected != 0:
		return textmatch.Fail(verdict.AmbiguousAnswer, "the candidate names several choices at once", metadata)
	case got&k.expected == 0:
		return textmatch.Fail(verdict.WrongAnswer, "the candidate names another choice", metadata)
	}
	return textmatch.Pass(metadata)
}
