package shortanswer

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestReferencePasses: whatever a row asks for, its own reference gives.
func TestReferencePasses(t *testing.T) {
	tests := map[string]map[string]string{
		"text":   {"accepted_answers": `["Paris", "Ville de Paris"]`},
		"number": {"accepted_answers": `[3.5]`, "tolerance": `0.1`},
		"set":    {"accepted_answers": `["red", "green", "blue"]`, "match": `{"type": "set"}`},
		"marker": {"accepted_answers": `["Paris"]`, "match": `{"type": "text", "marker": "Result:"}`},
		"span":   {"accepted_answers": `["Denver Broncos"]`, "match": `{"type": "span"}`},
		"both":   {"accepted_answers": `["red", "green"]`, "match": `{"type": "set", "marker": "Colours:"}`},
	}
	for name, eval := range tests {
		t.Run(name, func(t *testing.T) {
			c := task.Config{ID: "t", Family: "short_answer", Pack: task.Pack{ID: "p"},
				Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: jsontext.Value(`"Which?"`)}}}
			for k, v := range eval {
				c.Resources = append(c.Resources, task.Resource{Name: k, Lane: task.Hidden, Value: jsontext.Value(v)})
			}
			row, err := task.New(c)
			if err != nil {
				t.Fatal(err)
			}
			cand, ok := Family().Reference(row.Evaluator())
			if !ok {
				t.Fatal("the row has no reference")
			}
			s := newVerifier(family.Resources{}).Open(t.Context(), family.Case{Evaluator: row.Evaluator(), Sandbox: row.TestSandbox()})
			v, err := s.Verify(t.Context(), cand.Candidate)
			if err != nil || v.Outcome != verdict.Passed {
				t.Errorf("%q: outcome %s, reason %s, %v", familytest.Content(t, cand.Candidate), v.Outcome, v.Reason, err)
			}
		})
	}
}
