package artifacttask

import (
	"context"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// TestChecker: a checker decides on the files once they are of their types and what the
// rubric, if there is one, asks for.
func TestChecker(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e enginetest.Engine) {
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
