package judge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
)

// RubricType is the type of rubrics that a judge decides.
const RubricType = "judge"

// Rubric is what a candidate must meet.
type Rubric struct {
	Criteria []Criterion
	// Pass is how many criteria have to be met, beside every required one.
	Pass int
	// Blind withholds the row's reference from the judge.
	Blind    bool
	MaxWords int // of a candidate; a longer one fails
}

// Criterion is one part of a rubric.
type Criterion struct {
	ID       string
	Text     string
	Required bool
}

// The bounds of rubrics.
const (
	maxCriteria     = 20
	maxCriterion    = 16 << 10 // bytes
	defaultMaxWords = 2000
	mostMaxWords    = 100_000
)

// soleID is the ID of the only criterion of a rubric that is a text.
const soleID = "rubric"

var criterionID = lazyregexp.New(`^[A-Za-z0-9_-]{1,40}$`)

// Needed reports whether a rubric needs a judge: it is a text, or an object of type
// [RubricType].
func Needed(rubric jsontext.Value) bool {
	var of struct {
		Type string `json:"type"`
	}
	return rubric.Kind() == '"' || rubric.Kind() == '{' && json.Unmarshal(rubric, &of) == nil && of.Type == RubricType
}

// ParseRubric reads a rubric that needs a judge.
func ParseRubric(v jsontext.Value) (Rubric, error) {
	r := Rubric{MaxWords: defaultMaxWords, Pass: 1}
	if v.Kind() == '"' {
		var text string
		if json.Unmarshal(v, &text) != nil || strings.TrimSpace(text) == "" || len(text) > maxCriterion {
			return r, fmt.Errorf("the rubric must be a text of 1 to %d bytes", maxCriterion)
		}
		r.Criteria = []Criterion{{ID: soleID, Text: text, Required: true}}
		return r, nil
	}
	var of struct {
		Type     string `json:"type"`
		Criteria []struct {
			ID       string `json:"id"`
			Text     string `json:"text"`
			Required bool   `json:"required"`
		} `json:"criteria"`
		Reference *bool          `json:"reference"`
		Pass      jsontext.Value `json:"pass"`
		MaxWords  *int           `json:"max_words"`
	}
	if err := json.Unmarshal(v, &of, json.RejectUnknownMembers(true)); err != nil || of.Type != RubricType {
		return r, errors.New("the rubric must have the type judge, and may have criteria, reference, pass and max_words")
	}
	if len(of.Criteria) < 1 || len(of.Criteria) > maxCriteria {
		return r, fmt.Errorf("rubric.criteria must be a list of 1 to %d criteria", maxCriteria)
	}
	for i, c := range of.Criteria {
		known := func(other Criterion) bool { return other.ID == c.ID }
		switch {
		case !criterionID.MatchString(c.ID):
			return r, fmt.Errorf("rubric.criteria[%d].id must have 1 to 40 letters, digits, _ and -", i)
		case slices.ContainsFunc(r.Criteria, known):
			return r, fmt.Errorf("rubric.criteria[%d].id is that of another criterion", i)
		case strings.TrimSpace(c.Text) == "" || len(c.Text) > maxCriterion:
			return r, fmt.Errorf("rubric.criteria[%d].text must be a text of 1 to %d bytes", i, maxCriterion)
		}
		r.Criteria = append(r.Criteria, Criterion(c))
	}
	r.Blind = of.Reference != nil && !*of.Reference
	if of.MaxWords != nil {
		if r.MaxWords = *of.MaxWords; r.MaxWords < 1 || r.MaxWords > mostMaxWords {
			return r, fmt.Errorf("rubric.max_words must be from 1 to %d", mostMaxWords)
		}
	}
	return r, r.readPass(of.Pass)
}

// readPass reads how many criteria have to be met; all, unless it says less.
func (r *Rubric) readPass(v jsontext.Value) error {
	r.Pass = len(r.Criteria)
	if v == nil || string(v) == `"all"` {
		return nil
	}
	if json.Unmarshal(v, &r.Pass) != nil || r.Pass < 1 || r.Pass > len(r.Criteria) {
		return fmt.Errorf("rubric.pass must be all, or from 1 to the number of criteria, which is %d", len(r.Criteria))
	}
	return nil
}

// passes reports whether enough criteria are met, which are in the rubric's order.
func (r Rubric) passes(met []bool) bool {
	n := 0
	for i, c := range r.Criteria {
		switch {
		case met[i]:
			n++
		case c.Required:
			return false
		}
	}
	return n >= r.Pass
}
