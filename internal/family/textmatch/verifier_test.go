package textmatch

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

type echo struct{}

func (echo) Score(_ context.Context, candidate string, _ bool) (family.Verdict, error) {
	return Pass(map[string]any{"candidate_answer": candidate}), nil
}

func verify(t *testing.T, v family.Verifier, data string) (family.Verdict, error) {
	t.Helper()
	s := v.Open(t.Context(), family.Case{})
	defer func() {
		for range 2 { // Close is idempotent
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}()
	return s.Verify(t.Context(), candidate.New(task.Text, candidate.Given, []byte(data)))
}

func TestVerifier(t *testing.T) {
	v := NewVerifier(func(family.Case) (Scorer, error) { return echo{}, nil })
	got, err := verify(t, v, "text")
	if err != nil {
		t.Fatal(err)
	}
	want := family.Verdict{
		Outcome: verdict.Passed, Containment: verdict.Passive, Metadata: verdict.NewMetadata(map[string]any{"candidate_answer": "text"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	if err := v.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestVerifierRefusesInvalidUTF8(t *testing.T) {
	v := NewVerifier(func(family.Case) (Scorer, error) { return echo{}, nil })
	got, err := verify(t, v, "text\xff")
	if err != nil || got.Outcome != verdict.Failed || got.Reason != verdict.InvalidUTF8 {
		t.Errorf("verdict %+v, error %v", got, err)
	}
}

func TestVerifierReportsBadRow(t *testing.T) {
	bad := errors.New("bad row")
	v := NewVerifier(func(family.Case) (Scorer, error) { return nil, bad })
	if got, err := verify(t, v, "text"); err != nil || got.Outcome != verdict.Pending || got.Reason != verdict.PackFault {
		t.Errorf("verdict %+v, error %v", got, err)
	}
}

func TestVerifierStopsWhenCancelled(t *testing.T) {
	v := NewVerifier(func(family.Case) (Scorer, error) { return echo{}, nil })
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("operator left")
	cancel(cause)
	if _, err := v.Open(ctx, family.Case{}).Verify(ctx, candidate.Candidate{}); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

// judging fails as an engine does on "broken".
type judging struct{}

func (judging) Score(_ context.Context, candidate string, _ bool) (family.Verdict, error) {
	if candidate == "broken" {
		return family.Verdict{}, errors.New("no engine")
	}
	return Fail(verdict.WrongAnswer, "judged", nil), nil
}

// TestJudge: the errors of a scorer that needs sandboxes can be retried, and what it keeps
// is released with the verifier.
func TestJudge(t *testing.T) {
	closed := 0
	v := NewVerifier(func(c family.Case) (Scorer, error) { return judging{}, nil },
		func(context.Context) error { closed++; return nil })
	if got, err := verify(t, v, "text"); err != nil || got.Message != "judged" {
		t.Errorf("verdict %+v, error %v", got, err)
	}
	if _, err := verify(t, v, "broken"); err == nil {
		t.Error("the engine's error is lost")
	}
	if got, err := verify(t, v, "text\xff"); err != nil || got.Reason != verdict.InvalidUTF8 {
		t.Errorf("verdict %+v, error %v", got, err)
	}
	if err := v.Close(t.Context()); err != nil || closed != 1 {
		t.Errorf("closed %d times, %v", closed, err)
	}
}
