package freeresponse

import (
	"errors"
	"math/big"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/compare"
)

// containsAny is the only type of rubric.
const containsAny = "contains_any"

// Reasons why a row cannot be scored.
var (
	errRubric    = errors.New("the rubric must be a string or an object")
	errType      = errors.New("rubric.type must be contains_any")
	errAccepted  = errors.New("rubric.accepted_answers must be a non-empty list of non-blank strings")
	errRejected  = errors.New("rubric.rejected_answers must be a non-empty list of non-blank strings")
	errThreshold = errors.New("rubric.min_token_f1 must be a number from 0 to 1")
)

// A phrase is one accepted or rejected answer.
type phrase struct {
	text   string // normalised
	words  int
	counts map[string]int // its tokens
	tokens int
}

// A rubric is a contains_any rubric as it is scored.
type rubric struct {
	accepted, rejected []phrase
	threshold          *big.Rat
	declared           bool            // the row names a threshold
	vocabulary         map[string]bool // the words of all answers
	affirmed           map[string]int  // most occurrences in one accepted answer
}

// newRubric reads a rubric object. Keys without meaning are ignored, as in the
// reference.
func newRubric(v jsontext.Value) (*rubric, error) {
	if v.Kind() != '{' {
		return nil, errRubric
	}
	fields := map[string]jsontext.Value{}
	if err := json.Unmarshal(v, &fields); err != nil {
		return nil, errRubric
	}
	if t := fields["type"]; t != nil && string(t) != `"`+containsAny+`"` {
		return nil, errType
	}
	r := &rubric{threshold: big.NewRat(1, 1), vocabulary: map[string]bool{}, affirmed: map[string]int{}}
	var ok bool
	if r.accepted, ok = readAnswers(fields["accepted_answers"]); !ok {
		return nil, errAccepted
	}
	if f := fields["rejected_answers"]; f != nil && f.Kind() != 'n' {
		if r.rejected, ok = readAnswers(f); !ok {
			return nil, errRejected
		}
	}
	if f := fields["min_token_f1"]; f != nil {
		n, ok := compare.ParseNumber(string(f))
		if f.Kind() != '0' || !ok || n.Rat().Sign() < 0 || n.Rat().Cmp(r.threshold) > 0 {
			return nil, errThreshold
		}
		r.threshold, r.declared = n.Rat(), true
	}
	r.learn()
	return r, nil
}

func readAnswers(v jsontext.Value) ([]phrase, bool) {
	var texts []string
	if v.Kind() != '[' || json.Unmarshal(v, &texts) != nil || len(texts) == 0 {
		return nil, false
	}
	var out []phrase
	for _, t := range texts {
		low := lower(t)
		a := phrase{text: textmatch.Tidy(low), words: textmatch.CountWords(t, -1), counts: map[string]int{}}
		for token := range tokens(low) {
			a.counts[token]++
			a.tokens++
		}
		if a.text == "" {
			return nil, false
		}
		out = append(out, a)
	}
	return out, true
}

// learn collects the words of the answers.
func (r *rubric) learn() {
	for i, a := range slices.Concat(r.accepted, r.rejected) {
		for t, n := range a.counts {
			r.vocabulary[t] = true
			if i < len(r.accepted) {
				r.affirmed[t] = max(r.affirmed[t], n)
			}
		}
	}
}
