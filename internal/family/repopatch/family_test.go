package repopatch

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
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
		if content(t, got.Candidate) != want || ok != (want != "") || got.Candidate.Kind != task.Patch {
			t.Errorf("%s: got %s %q, %t", value, got.Candidate.Kind, content(t, got.Candidate), ok)
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

// content reads a candidate.
func content(tb testing.TB, c candidate.Candidate) string {
	tb.Helper()
	if c.Digest == "" {
		return ""
	}
	data, err := c.Bytes()
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}
