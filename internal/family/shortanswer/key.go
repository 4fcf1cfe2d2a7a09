package shortanswer

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/family/textmatch/vocabulary"
)

// Reasons why a row cannot be scored.
var (
	errNoAnswers  = errors.New("accepted_answers must be a non-empty list of strings and numbers")
	errTolerance  = errors.New("tolerance must be a number of at least 0 with at most 400 digits and an exponent of at most 400")
	errMatchType  = errors.New("match.type must be number, text, span, set, regex or math")
	errNotNumber  = errors.New("match.type is number, but an accepted answer is not a number")
	errMarker     = errors.New("match.marker must not be blank")
	errSetSize    = errors.New("a set has at most 256 accepted answers")
	errExtraWords = errors.New("match.max_extra_words must be from 0 to 1000 and requires match.type span")
	errPattern    = errors.New("match.type is regex, but an accepted answer is not a regular expression (RE2)")
)

const (
	defaultExtraWords = 8
	maxExtraWords     = 1000
)

// rule says how accepted answers are matched.
type rule string

const (
	byDefault rule = "" // by the form of the accepted answer
	byNumber  rule = "number"
	byText    rule = "text"
	bySpan    rule = "span"
	bySet     rule = "set"
	byRegex   rule = "regex"
	byMath    rule = "math"
)

// match is eval.match as a row writes it.
type match struct {
	Type          rule    `json:"type"`
	Marker        *string `json:"marker"`
	IgnoreCase    *bool   `json:"ignore_case"`
	MaxExtraWords *int    `json:"max_extra_words"`
	answer.Declared
}

// An accepted answer is a string or a number of the row.
type accepted struct {
	text   string
	number *compare.Number // of one that is compared as a number
}

// A key is what a row accepts, and how.
type key struct {
	accepted  []accepted
	tolerance *big.Rat // nil when the row names none
	rule      rule
	marker    string // "" for the usual marks
	options   answer.Options
	in        vocabulary.Languages
	keepCase  bool
	extra     int
	numbers   compare.Numbers
	texts     *compare.Texts
	members   *compare.Members
	question  *answer.Question
}

// newKey reads the hidden values of a row, of which tolerance and match may be absent, and
// the question, whose words may stand next to an answer, with the format that it asks for.
func newKey(answers, tolerance, rules jsontext.Value, question, format string) (*key, error) {
	k := &key{extra: defaultExtraWords, in: vocabulary.Every, options: answer.Options{ColonA: true}}
	if err := k.readMatch(rules); err != nil {
		return nil, err
	}
	var items []jsontext.Value
	if err := json.Unmarshal(answers, &items); err != nil || len(items) == 0 {
		return nil, errNoAnswers
	}
	if k.rule == bySet && len(items) > compare.MaxSet {
		return nil, errSetSize
	}
	for _, item := range items {
		a, err := k.readAnswer(item)
		if err != nil {
			return nil, err
		}
		k.accepted = append(k.accepted, a)
	}
	if len(tolerance) > 0 && tolerance.Kind() != 'n' {
		n, ok := compare.ParseNumber(string(tolerance))
		if tolerance.Kind() != '0' || !ok || n.Rat().Sign() < 0 {
			return nil, errTolerance
		}
		k.tolerance = n.Rat()
	}
	return k, k.ask(question, format)
}

func (k *key) readMatch(v jsontext.Value) error {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil
	}
	var m match
	if err := json.Unmarshal(v, &m, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("reading match: %w", err)
	}
	switch m.Type {
	case byNumber, byText, bySpan, bySet, byRegex, byMath:
		k.rule = m.Type
	case byDefault:
		if m.Language == nil && m.Marks == nil && m.Pattern == nil && m.Extract == "" {
			return errMatchType
		}
	default:
		return errMatchType
	}
	k.keepCase = m.IgnoreCase != nil && !*m.IgnoreCase
	if m.Marker != nil {
		if k.marker = k.fold(textmatch.Collapse(*m.Marker)); k.marker == "" {
			return errMarker
		}
	}
	if n := m.MaxExtraWords; n != nil {
		if *n < 0 || *n > maxExtraWords || m.Type != bySpan {
			return errExtraWords
		}
		k.extra = *n
	}
	var err error
	k.in, err = m.Apply(&k.options)
	return err
}

func (k *key) readAnswer(v jsontext.Value) (accepted, error) {
	text := string(v)
	if v.Kind() != '0' && (v.Kind() != '"' || json.Unmarshal(v, &text) != nil) {
		return accepted{}, errNoAnswers
	}
	a := accepted{text: text}
	if k.rule == byText || k.rule == bySpan || k.rule == byRegex || k.rule == byMath {
		return a, nil
	}
	if n, ok := compare.ParseNumber(text); ok {
		a.number = &n
	} else if k.rule == byNumber {
		return accepted{}, errNotNumber
	}
	return a, nil
}

// ask prepares the readers of answers to a question. It fails for a pattern that is none.
func (k *key) ask(question, format string) error {
	k.question = answer.Ask(question, format, k.in)
	k.texts = &compare.Texts{KeepCase: k.keepCase, ExtraWords: k.extra}
	switch k.rule {
	case byText, bySet:
		k.texts.Mode = compare.Whole
	case bySpan:
		k.texts.Mode = compare.Span
	case byRegex:
		k.texts.Mode = compare.Pattern
	}
	k.numbers = compare.NewNumbers(k.question, k.tolerance != nil)
	k.members = &compare.Members{Texts: k.texts, Tolerance: k.tolerance}
	for _, a := range k.accepted {
		t, err := k.texts.NewText(a.text, k.question)
		if err != nil {
			return errPattern
		}
		k.members.Accepted = append(k.members.Accepted, compare.Member{Text: t, Number: a.number})
		if a.number != nil {
			t = compare.Text{}
			k.numbers.Accept(*a.number)
		}
		k.texts.Accepted = append(k.texts.Accepted, t)
	}
	return nil
}

// fold returns s in NFC, in lower case unless the row keeps it.
func (k *key) fold(s string) string {
	if k.keepCase {
		return textmatch.NFC(s)
	}
	return textmatch.Lower(s)
}
