package shortanswer

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
)

// Reasons why a row cannot be scored.
var (
	errNoAnswers  = errors.New("accepted_answers must be a non-empty list of strings and numbers")
	errTolerance  = errors.New("tolerance must be a number of at least 0 with at most 400 digits and an exponent of at most 400")
	errMatchType  = errors.New("match.type must be number, text, span or set")
	errNotNumber  = errors.New("match.type is number, but an accepted answer is not a number")
	errMarker     = errors.New("match.marker must not be blank")
	errSetSize    = errors.New("a set has at most 256 accepted answers")
	errExtraWords = errors.New("match.max_extra_words must be from 0 to 1000 and requires match.type span")
)

const (
	defaultExtraWords = 8
	maxExtraWords     = 1000
)

// rule says how accepted answers are matched.
type rule string

const (
	byDefault rule = "" // number or text, by the accepted answer
	byNumber  rule = "number"
	byText    rule = "text"
	bySpan    rule = "span"
	bySet     rule = "set"
)

// match is eval.match as a row writes it.
type match struct {
	Type          rule    `json:"type"`
	Marker        *string `json:"marker"`
	IgnoreCase    *bool   `json:"ignore_case"`
	MaxExtraWords *int    `json:"max_extra_words"`
}

// An answer is one accepted answer.
type answer struct {
	text     string // normalised
	number   number.Number
	isNumber bool
	asked    bool // the text occurs in the question, or in the format that it asks for
}

// A key is what a row accepts, and how.
type key struct {
	accepted   []answer
	tolerance  *big.Rat // nil when the row names none
	rule       rule
	marker     string // "" for the usual markers
	keepCase   bool
	extraWords int
	question   *number.Question
}

// newKey reads the hidden values of a row; tolerance and match may be absent.
func newKey(accepted, tolerance, rules jsontext.Value) (*key, error) {
	k := &key{extraWords: defaultExtraWords, question: number.NewQuestion("", "")}
	if err := k.readMatch(rules); err != nil {
		return nil, err
	}
	var items []jsontext.Value
	if err := json.Unmarshal(accepted, &items); err != nil || len(items) == 0 {
		return nil, errNoAnswers
	}
	if k.rule == bySet && len(items) > maxSet {
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
		n, ok := number.Parse(string(tolerance))
		if tolerance.Kind() != '0' || !ok || n.Rat().Sign() < 0 {
			return nil, errTolerance
		}
		k.tolerance = n.Rat()
	}
	return k, nil
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
	case byNumber, byText, bySpan, bySet:
		k.rule = m.Type
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
		k.extraWords = *n
	}
	return nil
}

func (k *key) readAnswer(v jsontext.Value) (answer, error) {
	text := string(v)
	switch v.Kind() {
	case '0':
	case '"':
		if err := json.Unmarshal(v, &text); err != nil {
			return answer{}, errNoAnswers
		}
	default:
		return answer{}, errNoAnswers
	}
	a := answer{text: k.normalize(text)}
	if k.rule == byText || k.rule == bySpan {
		return a, nil
	}
	a.number, a.isNumber = number.Parse(text)
	if k.rule == byNumber && !a.isNumber {
		return answer{}, errNotNumber
	}
	return a, nil
}

// ask gives the key the question, whose words may stand next to an answer, and
// the format that it asks for.
func (k *key) ask(question, format string) {
	k.question = number.NewQuestion(question, format)
	text := k.fold(textmatch.Collapse(question + " " + format))
	for i := range k.accepted {
		k.accepted[i].asked = textmatch.HasPhrase(text, k.accepted[i].text)
	}
}

// fold returns s in NFC, in lower case unless the row keeps it.
func (k *key) fold(s string) string {
	if k.keepCase {
		return textmatch.NFC(s)
	}
	return textmatch.Lower(s)
}

// normalize returns the form of s in which the row compares text.
func (k *key) normalize(s string) string {
	return textmatch.Tidy(k.fold(s))
}
