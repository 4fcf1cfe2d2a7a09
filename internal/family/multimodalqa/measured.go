package multimodalqa

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/lazyregexp"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Reasons why a row cannot be compared by a rule of this family.
var (
	errLongGold = errors.New("an answer has more than 1024 characters")
	errShare    = errors.New("match.relative_tolerance must be a number from 0 to 1")
)

// The defaults of the rules.
const (
	defaultShare     = "0.05"
	defaultAlike     = 0.5
	maxGold          = 1024 // characters of an answer that distances are measured to
	mostAlikeTimes   = 4    // a longer text is no answer, whatever its distance
	mostAlikeAdded   = 40
	votesThatCount   = 3
	defaultAgreement = 1.0 / votesThatCount
)

// row is a row that is compared by a rule of this family.
type row struct {
	match    match
	golds    []string
	question *answer.Question
	options  answer.Options
	share    *big.Rat
	votes    votes
	texts    texts
}

// readMeasured reads such a row.
func readMeasured(c family.Case) (textmatch.Scorer, error) {
	v := c.Evaluator
	rules, _ := v.Get("match")
	gold, _ := v.Get("answer")
	r, err := newRow(rules.Value, gold.Value, textmatch.TextOf(v, "question"), textmatch.TextOf(v, "answer_format"))
	if err != nil {
		return nil, fmt.Errorf("reading the answers of task %s: %w", v.ID(), err)
	}
	return r, nil
}

func newRow(rules, gold jsontext.Value, question, format string) (*row, error) {
	m, err := readMatch(rules)
	if err != nil {
		return nil, fmt.Errorf("reading match: %w", err)
	}
	r := &row{match: m, golds: texted(golds(gold))}
	in, err := m.Apply(&r.options)
	if err != nil {
		return nil, err
	}
	r.question = answer.Ask(question, format, in)
	for _, g := range r.golds {
		if utf8.RuneCountInString(g) > maxGold {
			return nil, errLongGold
		}
	}
	literal := string(m.Share)
	if literal == "" {
		literal = defaultShare
	}
	share, ok := compare.ParseNumber(literal)
	if !ok {
		return nil, errShare
	}
	r.share, r.votes = share.Rat(), newVotes(golds(gold))
	r.texts = newTexts(r.golds, func(s string) bool { return r.measure(s) >= r.threshold() })
	return r, nil
}

// texted returns values as texts; a number is its literal.
func texted(values []jsontext.Value) []string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		s := string(v)
		if v.Kind() == '"' {
			b, err := jsontext.AppendUnquote(nil, v)
			if err != nil {
				continue // never: the row's parser has read it
			}
			s = string(b)
		}
		out = append(out, s)
	}
	return out
}

// threshold is the least measure that passes.
func (r *row) threshold() float64 {
	switch {
	case r.match.Threshold != nil:
		return *r.match.Threshold
	case r.match.Type == "vqa":
		return defaultAgreement
	}
	return defaultAlike
}

// Score scores a candidate. Of one that was cut off only what is marked counts.
func (r *row) Score(_ context.Context, candidate string, cut bool) (family.Verdict, error) {
	return r.score(candidate, cut), nil
}

// Silent reports whether a reply states no answer by the row's rule.
func (r *row) Silent(candidate string) bool {
	reply := answer.Read(candidate, r.question, r.options)
	if r.match.Type != "relaxed" {
		return answer.Silent(reply, r.texts)
	}
	numbers, words, values := r.readers()
	return (len(values) == 0 || answer.Silent(reply, numbers)) && (len(words.Accepted) == 0 || answer.Silent(reply, words))
}

func (r *row) score(candidate string, cut bool) family.Verdict {
	metadata := map[string]any{"candidate_answer": textmatch.Excerpt(candidate), "expected_answer": task.Redacted, "match_strategy": r.match.Type}
	reply := answer.Read(candidate, r.question, r.options)
	if reply.Blank {
		return textmatch.Fail(verdict.EmptyCandidate, "the candidate is blank", metadata)
	}
	if r.match.Type == "relaxed" {
		reason, message := r.relaxed(reply, cut)
		if reason != "" {
			return textmatch.Fail(reason, message, metadata)
		}
		return textmatch.Pass(metadata)
	}
	got, reason, message := answer.Decide(reply, r.texts, cut)
	v := textmatch.Pass(metadata)
	value := 0.0
	if reason == "" {
		switch value = r.measure(got.Value); {
		case value < r.threshold():
			reason, message = verdict.WrongAnswer, "the answer is not near enough to the expected one"
		case r.offers(got.Value, value):
			reason, message = verdict.AmbiguousAnswer, "the answer is nearer without what it offers beside it"
		}
	}
	if reason != "" {
		v = textmatch.Fail(reason, message, metadata)
	}
	v.Labels, v.Measure = []string{verdict.Measured}, &verdict.Measure{Name: r.match.Type, Value: value}
	return v
}

// offers reports whether a part of an answer, between signs that part alternatives, is
// nearer than all of it. A comma is none of those signs: places and names have it.
func (r *row) offers(s string, whole float64) bool {
	parts := strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune("/|;&\\\n", c) })
	if len(parts) < 2 {
		return false
	}
	return len(parts) > maxAlternatives || slices.ContainsFunc(parts, func(p string) bool { return r.measure(p) > whole })
}

// maxAlternatives is how many parts of an answer are measured. One with more offers
// alternatives.
const maxAlternatives = 32

// measure is how near a text is to the accepted answers, from 0 to 1.
func (r *row) measure(s string) float64 {
	if r.match.Type == "vqa" {
		return r.votes.accuracy(s)
	}
	best := 0.0
	for _, g := range r.golds {
		best = max(best, alike(s, g))
	}
	return best
}

// readers returns what reads the numbers and the texts that a relaxed row accepts, and
// those numbers.
func (r *row) readers() (compare.Numbers, *compare.Texts, []compare.Number) {
	numbers := compare.NewNumbers(r.question, r.share.Sign() > 0)
	words := &compare.Texts{Mode: compare.InSentence}
	var values []compare.Number
	for _, g := range r.golds {
		if n, ok := compare.ParseNumber(g); ok {
			values = append(values, n)
			numbers.Accept(n)
			continue
		}
		t, err := words.NewText(g, r.question)
		if err == nil {
			words.Accepted = append(words.Accepted, t)
		}
	}
	return numbers, words, values
}

// relaxed decides as benchmarks of charts do: numbers within a share of the accepted one,
// texts in normal form.
func (r *row) relaxed(reply *answer.Reply, cut bool) (verdict.Reason, string) {
	wrong := verdict.WrongAnswer
	message := "the answer is not the expected one"
	numbers, words, values := r.readers()
	if len(values) > 0 {
		got, reason, why := answer.Decide(reply, numbers, cut)
		if reason == "" && slices.ContainsFunc(values, func(n compare.Number) bool { return n.Near(got.Value, r.shareOf(n), r.question) }) {
			return "", ""
		}
		if reason != "" {
			wrong, message = reason, why
		}
	}
	if len(words.Accepted) > 0 {
		_, reason, why := answer.Decide(reply, words, cut)
		if reason == "" {
			return "", ""
		}
		if len(values) == 0 {
			wrong, message = reason, why
		}
	}
	return wrong, message
}

// dated is a question that asks for a year or a date.
var dated = lazyregexp.New(`(?i)\b(?:years?|when|dates?|años?|cuándo|années?|quand|jahre?s?|wann|anos?|quando|tahun|kapan)\b|(?:^|\P{L})(?:год|когда)|年|언제|연도|سنة|عام|متى|वर्ष|साल|कब`)

// shareOf returns how far an answer may lie from an accepted number, as a share of it. A
// year must be equal: one of five in a hundred is another century.
func (r *row) shareOf(n compare.Number) *big.Rat {
	v := n.Rat()
	year := v.IsInt() && v.Cmp(big.NewRat(1500, 1)) >= 0 && v.Cmp(big.NewRat(2100, 1)) <= 0
	if year && dated.MatchString(r.question.Text()) {
		return new(big.Rat)
	}
	return r.share
}

// alike is the average normalized Levenshtein similarity of benchmarks of documents: 1
// less the distance by the longer length, in lower case and with single spaces.
func alike(s, gold string) float64 {
	gold = textmatch.Lower(textmatch.Collapse(gold))
	best := 0.0
	for _, form := range slices.Compact([]string{s, strings.TrimRight(s, " .")}) {
		form = textmatch.Lower(textmatch.Collapse(form))
		a, b := utf8.RuneCountInString(form), utf8.RuneCountInString(gold)
		if a == 0 || b == 0 || a > mostAlikeTimes*b+mostAlikeAdded {
			continue
		}
		best = max(best, 1-float64(levenshtein.ComputeDistance(form, gold))/float64(max(a, b)))
	}
	return best
}

// checkMeasured refuses a row that no answer passes, or that cannot be read.
func checkMeasured(m match, gold jsontext.Value) (out []family.Problem) {
	path := []string{"eval", "answer"}
	for _, g := range texted(golds(gold)) {
		if textmatch.Normalize(g) == "" {
			return []family.Problem{{Path: path, Message: "is empty after normalisation", Fix: "spaces, quotes and . , ; : at either end are ignored"}}
		}
		if utf8.RuneCountInString(g) > maxGold {
			return []family.Problem{{Path: path, Message: errLongGold.Error(), Fix: "shorten it"}}
		}
	}
	if err := m.unusable(); err != nil {
		return []family.Problem{{Path: []string{"eval", "match"}, Message: "cannot be used: " + err.Error()}}
	}
	if m.Type != "vqa" {
		return nil
	}
	least := defaultAgreement
	if m.Threshold != nil {
		least = *m.Threshold
	}
	if _, most := newVotes(golds(gold)).best(); most < least {
		out = append(out, family.Problem{Path: path, Message: fmt.Sprintf("cannot be answered: no answer is accurate in %.2f, as vqa counts people's answers", least),
			Fix: "give the answers of all annotators, repeated as often as they were given, or a lower match.threshold"})
	}
	return out
}

// unusable returns what is wrong with the settings that say where an answer is.
func (m match) unusable() error {
	_, err := m.Apply(&answer.Options{})
	return err
}
