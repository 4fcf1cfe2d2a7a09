package freeresponse

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
)

func TestReference(t *testing.T) {
	tests := []struct{ rubric, reference, want string }{
		{`{"accepted_answers":["a","b"]}`, `"r"`, "r"},
		{`{"accepted_answers":["a","b"]}`, ``, "a"},
		{`"judge it"`, `"r"`, "r"},
		{`"judge it"`, ``, ""},
	}
	for _, tt := range tests {
		resources := []task.Resource{{Name: "rubric", Value: jsontext.Value(tt.rubric)}}
		if tt.reference != "" {
			resources = append(resources, task.Resource{Name: "reference_answer", Value: jsontext.Value(tt.reference)})
		}
		c, err := task.New(task.Config{ID: "a", Family: "free_response", Pack: task.Pack{ID: "p"}, Resources: resources})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := Family().Reference(c.Evaluator())
		if familytest.Content(t, got.Candidate) != tt.want || ok != (tt.want != "") || ok && got.Candidate.Kind != task.Text {
			t.Errorf("%+v: got %s %q, %t", tt, got.Candidate.Kind, familytest.Content(t, got.Candidate), ok)
		}
	}
}

// T08: answers that say nothing, each next to one that does.
func TestCheck(t *testing.T) {
	tests := []struct{ rubric, reference, want string }{
		{`{"accepted_answers":["a"],"rejected_answers":null}`, `"r"`, ""},
		{`{"accepted_answers":["a","."],"rejected_answers":["b"," "]}`, `"r"`,
			"eval/rubric/accepted_answers/1 eval/rubric/rejected_answers/1"},
		{`{"accepted_answers":["a"]}`, `"'"`, "eval/reference_answer"},
		{`"."`, `"r"`, ""},
	}
	for _, tt := range tests {
		var got []string
		for _, p := range Family().Check(family.Row{Eval: map[string]jsontext.Value{
			"rubric": jsontext.Value(tt.rubric), "reference_answer": jsontext.Value(tt.reference)}}) {
			got = append(got, strings.Join(p.Path, "/"))
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%+v: %s", tt, diff)
		}
	}
}
