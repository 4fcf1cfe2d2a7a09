package shortanswer

import (
	"errors"
	"fmt"

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

// modes are how texts are compared by each rule.
var modes = map[rule]compare.Mode{ //nolint:gochecknoglobals // a constant
	byDefault: compare.InSentence, byNumber: compare.InSentence, byMath: compare.InSentence,
	byText: compare.Whole, bySet: compare.Whole, bySpan: compare.Span, byRegex: compare.Pattern,
}

// match is eval.match as a row writes it.
type match struct {
	Type          rule    `json:"type"`
	Marker        *string `json:"marker"`
	IgnoreCase    *bool   `json:"ignore_case"`
	MaxExtraWords *int    `json:"max_extra_words"`
	answer.Declared
}

// matchOf reads eval.match, which may be absent, as far as a row may have more members.
func matchOf(v jsontext.Value) (m match, err error) {
	if len(v) > 0 {
		err = json.Unmarshal(v, &m)
	}
	return m, err
}

// A key is what a row accepts, and how.
type key struct {
	rule     rule
	marker   string // "" for the usual marks
	options  answer.Options
	question *answer.Question
	members  compare.Members // all accepted answers
	numeric  int             // how many of them are compared as numbers
	numbers  compare.Numbers
	texts    compare.Texts // an accepted answer that is compared as a number is blank here
}

// newKey reads the hidden values of a row, of which tolerance and match may be absent, and
// the question, whose words may stand next to an answer, with the format that it asks for.
func newKey(answers, tolerance, rules jsontext.Value, question, format string) (*key, error) {
	k := &key{texts: compare.Texts{ExtraWords: defaultExtraWords}}
	in, err := k.readMatch(rules)
	if err != nil {
		return nil, err
	}
	accepted := golds(answers)
	switch {
	case len(accepted) == 0:
		return nil, errNoAnswers
	case k.rule == bySet && len(accepted) > compare.MaxSet:
		return nil, errSetSize
	}
	k.question, k.members.Texts = answer.Ask(question, format, in), &k.texts
	if len(tolerance) > 0 && tolerance.Kind() != 'n' {
		n, ok := compare.ParseNumber(string(tolerance))
		if tolerance.Kind() != '0' || !ok || n.Rat().Sign() < 0 {
			return nil, errTolerance
		}
		k.members.Tolerance = n.Rat()
	}
	k.numbers = compare.NewNumbers(k.question, k.members.Tolerance != nil)
	for _, gold := range accepted {
		if err := k.accept(gold); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// accept adds an accepted answer.
func (k *key) accept(gold string) error {
	t, err := k.texts.NewText(gold, k.question)
	if err != nil {
		return errPattern
	}
	m := compare.Member{Text: t}
	switch n, ok := compare.ParseNumber(gold); {
	case !ok && k.rule == byNumber:
		return errNotNumber
	case ok && (k.rule == byDefault || k.rule == byNumber || k.rule == bySet):
		m.Number, t = &n, compare.Text{}
		k.numeric++
		k.numbers.Accept(n)
	}
	k.members.Accepted, k.texts.Accepted = append(k.members.Accepted, m), append(k.texts.Accepted, t)
	return nil
}

// readMatch reads what the row says about how answers are matched, and returns its
// languages.
func (k *key) readMatch(v jsontext.Value) (in vocabulary.Languages, err error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return vocabulary.Every, nil
	}
	var m match
	if err := json.Unmarshal(v, &m, json.RejectUnknownMembers(true)); err != nil {
		return 0, fmt.Errorf("reading match: %w", err)
	}
	mode, known := modes[m.Type]
	if !known || m.Type == byDefault && m.Language == nil && m.Marks == nil && m.Pattern == nil && m.Extract == "" {
		return 0, errMatchType
	}
	k.rule, k.texts.Mode, k.options.Lists = m.Type, mode, m.Type == byMath
	k.texts.KeepCase = m.IgnoreCase != nil && !*m.IgnoreCase
	if m.Marker != nil {
		if k.marker = k.fold(textmatch.Collapse(*m.Marker)); k.marker == "" {
			return 0, errMarker
		}
	}
	if n := m.MaxExtraWords; n != nil {
		if *n < 0 || *n > maxExtraWords || m.Type != bySpan {
			return 0, errExtraWords
		}
		k.texts.ExtraWords = *n
	}
	return m.Apply(&k.options)
}

// fold returns s in NFC, in lower case unless the row keeps it.
func (k *key) fold(s string) string {
	if k.texts.KeepCase {
		return textmatch.NFC(s)
	}
	return textmatch.Lower(s)
}
