package preferencepair

import (
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/judge"
	"securebench/internal/judge/judgetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestByJudge: of a row with a rubric and without a preference, the candidate is right that
// a judge prefers; what the agent says is read as of any other row. Texts that give no
// verdict cost no question.
func TestByJudge(t *testing.T) {
	longer := judgetest.Comparing(func(a, b string) bool { return len(a) > len(b) && a != meaningless })
	row := func(ties bool, a, b string) family.Case {
		return rowCase(t, map[string]any{"prompt": "Capital of France?", "candidate_a": a, "candidate_b": b, "allow_tie": ties}, map[string]any{"rubric": "Says more."})
	}
	say := func(v family.Verifier, c family.Case, texts []string) family.Verdict {
		t.Helper()
		list, err := candidate.JoinTexts(&texts[0], &texts[1])
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Open(t.Context(), c).Verify(t.Context(), candidate.New(task.Text, candidate.Given, list))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	c := row(false, "Paris, which lies on the Seine", "Paris")
	fam := Family()
	if fam.Basis(c.Evaluator) != verdict.Judged {
		t.Error("the row is computed")
	}
	for name, tt := range map[string]struct {
		of    judgetest.Character
		c     family.Case
		texts []string
		want  verdict.Outcome
		why   verdict.Reason
		asked int64
	}{
		"the preferred": {longer, c, []string{"[[A]]", "[[B]]"}, verdict.Passed, "", 6},
		"the other":     {longer, c, []string{"[[B]]", "[[A]]"}, verdict.Failed, verdict.WrongAnswer, 6},
		"the place":     {longer, c, []string{"[[A]]", "[[A]]"}, verdict.Failed, verdict.WrongAnswer, 0},
		"nothing":       {longer, c, []string{"", ""}, verdict.Failed, verdict.EmptyCandidate, 0},
		"two marks":     {longer, c, []string{"[[A]] [[B]]", "[[B]]"}, verdict.Failed, verdict.AmbiguousAnswer, 0},
		"a bound judge": {judgetest.PositionBound, c, []string{"[[A]]", "[[B]]"}, verdict.Failed, verdict.JudgeInconsistent, 6},
		"no preference": {longer, row(false, "Paris", "Paris"), []string{"[[A]]", "[[B]]"}, verdict.Failed, verdict.JudgeInconsistent, 6},
		"a tie":         {longer, row(true, "Paris", "Lyon!"), []string{"[[tie]]", "[[tie]]"}, verdict.Passed, "", 6},
		"no tie":        {longer, row(true, "Paris", "Lyon!"), []string{"[[A]]", "[[B]]"}, verdict.Failed, verdict.WrongAnswer, 6},
	} {
		panel, asker := judgetest.Panel(tt.of, "s")
		got := say(fam.NewVerifier(family.Resources{Judge: panel}), tt.c, tt.texts)
		if got.Outcome != tt.want || got.Reason != tt.why || got.Basis != verdict.Judged || asker.Asked.Load() != tt.asked {
			t.Errorf("%s: %s, %s, %s, %s after %d questions", name, got.Outcome, got.Reason, got.Message, got.Basis, asker.Asked.Load())
		}
	}
	specimen, ok := canaries(c.Evaluator)
	for name, tt := range map[string]struct {
		of    judgetest.Character
		trust bool
	}{"comparing": {longer, true}, "position-bound": {judgetest.PositionBound, false}, "gullible": {judgetest.Gullible, false}, "random": {judgetest.Random, false}} {
		panel, _ := judgetest.Panel(tt.of, "s")
		if trial, err := panel.Try(t.Context(), []judge.Specimen{specimen}, 4); !ok || err != nil || (trial.Fault() == "") != tt.trust {
			t.Errorf("%s: %v, %v\n%s", name, trial, err, trial.Table())
		}
	}
}
