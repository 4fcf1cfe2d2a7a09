package attempt_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// newLocal returns a worker, and an attempt with its candidate.
func newLocal(t *testing.T) (*attempt.Local, family.Case, candidate.Candidate) {
	t.Helper()
	tk, err := task.New(task.Config{ID: "t", Family: "f", Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := candidate.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c, err := store.Put(task.Text, candidate.Stdout, strings.NewReader("4"))
	if err != nil {
		t.Fatal(err)
	}
	return &attempt.Local{Store: store}, family.Case{Attempt: 1, Sandbox: tk.TestSandbox(), Evaluator: tk.Evaluator()}, c
}

// TestNoVerifier: a call that no verifier can make is an error of that call.
func TestNoVerifier(t *testing.T) {
	w, at, c := newLocal(t)
	w.Ahead(t.Context(), nil, &at)
	if _, err := w.Verify(t.Context(), attempt.Verification{Case: at, Candidate: c}); err == nil || err.Error() != "family f has no verifier" {
		t.Errorf("%v", err)
	}
	if err := w.Release(t.Context(), record.AttemptKey{Task: "t", Attempt: 1}); err != nil {
		t.Error(err)
	}
}

// broken verifies with a mistake that a candidate brings out.
type broken struct{}

func (broken) Open(context.Context, family.Case) family.Session { return broken{} }

func (broken) Verify(context.Context, candidate.Candidate) (family.Verdict, error) {
	panic("a mistake")
}

func (broken) Close(context.Context) error { return nil }

// TestMistakeOfOurs: a mistake that a candidate brings out is an error of its attempt, and
// the process continues.
func TestMistakeOfOurs(t *testing.T) {
	w, at, c := newLocal(t)
	w.Verifiers = map[string]family.Verifier{"f": broken{}}
	if _, err := w.Verify(t.Context(), attempt.Verification{Case: at, Candidate: c}); err == nil || !strings.Contains(err.Error(), "broken.Verify:") {
		t.Errorf("%v", err)
	}
	if err := w.Release(t.Context(), record.AttemptKey{Task: "t", Attempt: 1}); err != nil {
		t.Error(err)
	}
}

// TestErrorsCanBeEncoded: messages repeat what engines and agents say, and so do errors
// that are sent on.
func TestErrorsCanBeEncoded(t *testing.T) {
	failed := attempt.Failed(sandbox.Unusable(errors.New("no file \xff\x1b[2J\nat all")), verdict.PhasePrepare)
	b, err := attempt.Encode(failed)
	if err != nil {
		t.Fatal(err)
	}
	var arrived attempt.Error
	if err := attempt.Decode(b, &arrived); err != nil || arrived.Class != attempt.PackFault || arrived.Error() != "no file \\xff\\x1b[2J\nat all" {
		t.Errorf("%q, %v", arrived.Message, err)
	}
}
