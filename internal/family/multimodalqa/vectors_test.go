package multimodalqa

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/datatest"
	"securebench/internal/family"
	"securebench/internal/verdict"
)

// vector is a case of a rule with the value that the benchmark's own scorer gives.
type vector struct {
	Question  string         `json:"question"`
	Answer    any            `json:"answer"`
	Candidate string         `json:"candidate"`
	Official  jsontext.Value `json:"official"` // the verdict, or the measure
	Passed    bool           `json:"passed"`   // here
	Why       string         `json:"why"`      // it differs
}

// TestVectors: each rule gives the official verdict and measure, or the vector says why
// not.
func TestVectors(t *testing.T) {
	t.Parallel()
	v := newVerifier(family.Resources{})
	for rule, least := range map[string]float64{"relaxed": 1, "anls": defaultAlike, "vqa": defaultAgreement} {
		path := filepath.Join("testdata", "vectors", rule+".jsonl")
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, line := range datatest.Lines(t, path) {
			var c vector
			if err := json.Unmarshal(line, &c, json.RejectUnknownMembers(true)); err != nil {
				t.Fatal(err)
			}
			n++
			got := say(t, v, caseOf(t, c.Question, nil, c.Answer, `{"type": "`+rule+`"}`), c.Candidate)
			passed := got.Outcome == verdict.Passed
			official, measure := 0.0, 1.0
			switch c.Official.Kind() {
			case 't':
				official = 1
			case '0':
				if err := json.Unmarshal(c.Official, &official); err != nil {
					t.Fatal(err)
				}
			}
			if got.Measure != nil {
				measure = got.Measure.Value
			}
			same := passed == (official >= least-1e-6) && (!passed || math.Abs(measure-official) < 1e-5)
			if passed != c.Passed || same == (c.Why != "") {
				t.Errorf("%s: %q to %v: passes: %v, measure %v, official %s, %q", rule, c.Candidate, c.Answer, passed, measure, c.Official, c.Why)
			}
		}
		if n < 200 {
			t.Errorf("%s has %d vectors", rule, n)
		}
	}
}
