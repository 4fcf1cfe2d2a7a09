package forms

import (
	"context"
	"errors"
	"slices"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
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

func row(tb testing.TB, tests string) family.Case {
	tb.Helper()
	compiled, err := task.New(task.Config{ID: "t", Family: "f", Pack: task.Pack{ID: "p"},
		Resources: []task.Resource{{Name: "tests", Lane: task.EvaluationInputs, Value: []byte(tests)}}})
	if err != nil {
		tb.Fatal(err)
	}
	return family.Case{Sandbox: compiled.TestSandbox(), Evaluator: compiled.Evaluator()}
}

// TestVerifier: each row goes to the verifier of its form.
func TestVerifier(t *testing.T) {
	var said []string
	v := &verifier{func(task.EvaluatorView) (family.Solution, bool) { return family.Solve(task.Code, "as it is"), true },
		map[string]family.Verifier{Inline: full{form{Inline, &said}}, sharedForm: form{sharedForm, &said}}}
	for _, tt := range []struct {
		form, tests string
		reference   string
		twins       int
		passed      bool // when there is an alternative
		other       string
	}{
		{Inline, `{"source": "inline"}`, "whole", 1, false, sharedForm},
		{sharedForm, `{"source": "inline", "containment": "shared"}`, "as it is", 0, true, Inline},
	} {
		c := row(t, tt.tests)
		said = nil
		v.Open(t.Context(), c)
		if !slices.Equal(said, []string{tt.form + " opens"}) {
			t.Errorf("%s: %q", tt.form, said)
		}
		ref, ok, err := v.Complete(t.Context(), c)
		text, textErr := ref.Bytes()
		if err = errors.Join(err, textErr); err != nil || !ok || string(text) != tt.reference {
			t.Errorf("%s: the reference is %q, %t, %v", tt.form, text, ok, err)
		}
		if twins, err := v.Twins(t.Context(), c); err != nil || len(twins) != tt.twins {
			t.Errorf("%s: twins %v, %v", tt.form, twins, err)
		}
		if got := v.Alternatives(c, tt.passed); len(got) != 1 || got[0].Advice == "" || got[0].Verifier != v.of[tt.other] {
			t.Errorf("%s: alternatives %+v", tt.form, got)
		}
		if got := v.Alternatives(c, !tt.passed); got != nil {
			t.Errorf("%s: alternatives %+v, want none", tt.form, got)
		}
	}
	if err := v.Close(t.Context()); err == nil {
		t.Error("the errors of closing are lost")
	}
}
