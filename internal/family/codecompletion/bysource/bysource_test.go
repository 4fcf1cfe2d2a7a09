package bysource_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/bysource"
	"securebench/internal/task"
)

// form is a verifier that notes what it is asked.
type form struct {
	name string
	said *[]string
}

func (f form) Open(context.Context, family.Case) family.Session {
	*f.said = append(*f.said, f.name+" opens")
	return nil
}

func (f form) Close(context.Context) error { return errors.New(f.name + " does not close") }

// full is a form whose references are parts of candidates.
type full struct{ form }

func (f full) Complete(context.Context, family.Case) (candidate.Candidate, bool, error) {
	return candidate.New(task.Code, candidate.Given, []byte("whole")), true, nil
}

func (f full) Twins(context.Context, family.Case) ([]family.Twin, error) {
	return []family.Twin{{What: "wrong"}}, nil
}

func row(tb testing.TB, id string) family.Case {
	tb.Helper()
	compiled, err := task.New(task.Config{ID: id, Family: "f", Pack: task.Pack{ID: "p"}})
	if err != nil {
		tb.Fatal(err)
	}
	return family.Case{Sandbox: compiled.TestSandbox(), Evaluator: compiled.Evaluator()}
}

// TestForms: each row goes to the verifier of its form.
func TestForms(t *testing.T) {
	var said []string
	rules := []bysource.Rule{{From: "a", To: "b", Advice: "try b"}, {From: "b", To: "a", Passed: true, Advice: "try a"}}
	v := bysource.New(func(s task.SandboxView) string { return s.ID() },
		func(task.EvaluatorView) (family.Solution, bool) { return family.Solve(task.Code, "as it is"), true },
		bysource.Verifiers{"a": func(family.Resources) family.Verifier { return form{"a", &said} },
			"b": func(family.Resources) family.Verifier { return full{form{"b", &said}} }}, rules...)(family.Resources{}).(*bysource.Verifier)
	for id, want := range map[string]struct {
		reference string
		twins     int
		passed    bool // when there is an alternative
		advice    string
	}{"a": {"as it is", 0, false, "try b"}, "b": {"whole", 1, true, "try a"}} {
		c := row(t, id)
		said = nil
		v.Open(t.Context(), c)
		if !slices.Equal(said, []string{id + " opens"}) {
			t.Errorf("%s: %q", id, said)
		}
		ref, ok, err := v.Complete(t.Context(), c)
		text, textErr := ref.Bytes()
		if err = errors.Join(err, textErr); err != nil || !ok || string(text) != want.reference {
			t.Errorf("%s: the reference is %q, %t, %v", id, text, ok, err)
		}
		if twins, err := v.Twins(t.Context(), c); err != nil || len(twins) != want.twins {
			t.Errorf("%s: twins %v, %v", id, twins, err)
		}
		if got := v.Alternatives(c, want.passed); len(got) != 1 || got[0].Advice != want.advice || got[0].Verifier == nil {
			t.Errorf("%s: alternatives %+v", id, got)
		}
		if got := v.Alternatives(c, !want.passed); got != nil {
			t.Errorf("%s: alternatives %+v, want none", id, got)
		}
	}
	if err := v.Close(t.Context()); err == nil {
		t.Error("the errors of closing are lost")
	}
}
