package artifacttask

import (
	"context"
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// TestChecker: a checker decides on the files once they are of their types and what the
// rubric, if there is one, asks for.
func TestChecker(t *testing.T) {
	t.Parallel()
	enginetest.Sampled(t, func(t *testing.T, e enginetest.Engine) {
		image := enginetest.Image(t, e)
		v := newTest(t, e, nil)
		csv := object{"type": "csv", "path": "a.csv"}
		checked := object{keyChecker: object{"command": []string{"grep", "-q", "^2,", "a.csv"}}}
		both := object{keyChecker: checked[keyChecker], keyReference: "n,x\n1,y\n2,z\n", keyRubric: object{"type": "table"}}
		for name, tt := range map[string]struct {
			eval object
			text string
			want verdict.Reason
			how  verdict.Containment
		}{
			"right":                    {checked, "n,x\n2,y\n", "", verdict.Shared},
			"wrong":                    {checked, "n,x\n3,y\n", verdict.TestsFailed, verdict.Shared},
			"of no type":               {checked, "n,x\n\"2,y\n2,\n", verdict.ArtifactUnreadable, verdict.Passive},
			"right by both":            {both, "n,x\n1,y\n2,z\n", "", verdict.Shared},
			"wrong by the rubric":      {both, "n,x\n1,y\n2,y\n", verdict.WrongAnswer, verdict.Passive},
			"a checker that is fooled": {both, "n,x\n2,\n", verdict.WrongAnswer, verdict.Passive},
		} {
			c := rowOf(t, csv, tt.eval)
			c.Image = image
			got := scored(t, v, c, tree(t, map[string]left{"a.csv": {text: tt.text}}))
			if got.Reason != tt.want || (got.Outcome == verdict.Passed) != (tt.want == "") || got.Containment != tt.how {
				t.Errorf("%s: %s %s %s, %s, %q", name, got.Outcome, got.Reason, got.Containment, got.Message, got.Restricted)
			}
		}
	})
}

// fixed is a session with a verdict of its own.
type fixed struct {
	verdict family.Verdict
	err     error
}

func (f fixed) Verify(context.Context, candidate.Candidate) (family.Verdict, error) {
	return f.verdict, f.err
}
func (f fixed) Close(context.Context) error { return nil }

// TestBoth: a checker's failure to run is an error, and a verdict of both has what either
// keeps for the operator.
func TestBoth(t *testing.T) {
	t.Parallel()
	files := fixed{verdict: family.Verdict{Outcome: verdict.Passed,
		Metadata: verdict.Metadata{"files": jsontext.Value("1")}, Restricted: map[string][]byte{"delivered.txt": []byte("a")}}}
	broken := errors.New("the engine is gone")
	if _, err := (&both{files, fixed{err: broken}}).Verify(t.Context(), candidate.Candidate{}); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	for _, checked := range []family.Verdict{{Outcome: verdict.Passed},
		{Outcome: verdict.Failed, Metadata: verdict.Metadata{"exit_code": jsontext.Value("1")}, Restricted: map[string][]byte{"stdout": nil}}} {
		got, err := (&both{files, fixed{verdict: checked}}).Verify(t.Context(), candidate.Candidate{})
		_, kept := got.Restricted["delivered.txt"]
		if err != nil || got.Outcome != checked.Outcome || string(got.Metadata["files"]) != "1" || !kept {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// scored brings a case to its verdict.
func scored(tb testing.TB, v family.Verifier, c family.Case, cand candidate.Candidate) family.Verdict {
	tb.Helper()
	s := v.Open(tb.Context(), c)
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	}()
	got, err := s.Verify(tb.Context(), cand)
	if err != nil {
		tb.Fatal(err)
	}
	return got
}
