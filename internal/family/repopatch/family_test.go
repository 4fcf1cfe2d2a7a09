package repopatch

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/familytest"
	"securebench/internal/task"
)

func TestReferenceIsTheGoldPatch(t *testing.T) {
	for value, want := range map[string]string{`"diff"`: "diff", `""`: ""} {
		c, err := task.New(task.Config{ID: "a", Family: "repo_patch", Pack: task.Pack{ID: "p"},
			Resources: []task.Resource{{Name: "gold_patch", Value: jsontext.Value(value)}}})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := Family().Reference(c.Evaluator())
		if familytest.Content(t, got.Candidate) != want || ok != (want != "") || got.Candidate.Kind != task.Patch {
			t.Errorf("%s: got %s %q, %t", value, got.Candidate.Kind, familytest.Content(t, got.Candidate), ok)
		}
	}
	c, err := task.New(task.Config{ID: "a", Family: "repo_patch", Pack: task.Pack{ID: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := Family().Reference(c.Evaluator()); ok {
		t.Error("a row without a gold patch has a reference")
	}
}
