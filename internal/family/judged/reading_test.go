package judged_test

import (
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/multimodalqa"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/judge"
	"securebench/internal/judge/judgetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// said has a verifier decide about a text.
func said(t *testing.T, v family.Verifier, c family.Case, text string) family.Verdict {
	t.Helper()
	s := v.Open(t.Context(), c)
	got, err := s.Verify(t.Context(), candidate.New(task.Text, candidate.Given, []byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// row is a row whose answers a judge may read.
func row(t *testing.T, fam family.Family, gold, match any, choices []string) family.Case {
	t.Helper()
	values := []task.Resource{{Name: "question", Lane: task.Public, Value: familytest.JSON(t, "What is the capital of country 1?")}}
	if choices != nil {
		values = append(values, task.Resource{Name: "choices", Lane: task.Public, Value: familytest.JSON(t, choices)})
	}
	name := "answer"
	if fam.Name == "short_answer" {
		name = "accepted_answers"
	}
	return familytest.Case(t, fam.Name, append(values, task.Resource{Name: name, Lane: task.Hidden, Value: familytest.JSON(t, gold)},
		task.Resource{Name: "match", Lane: task.Hidden, Value: familytest.JSON(t, match)})...)
}

// prose is a text in which no rule finds the answer that it settles on.
func prose(answer string) string {
	return "I went through every map in the attic and asked about, and after a long evening of it I settle on " + answer + ". Then I put them all back to where they had been before."
}

// TestReads: of every family and comparison, a judge reads what is in prose, and its rule
// decides about that. What the rule reads, right or wrong, clear or not, no judge is asked
// about.
func TestReads(t *testing.T) {
	cities := []string{"Rome", "Lima", "Oslo"}
	by := func(pairs ...any) map[string]any {
		m := map[string]any{"extract": "judge"}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	}
	for name, tt := range map[string]struct {
		fam          family.Family
		c            family.Case
		right, wrong string
		stated       []string // by rule
	}{
		"a text":     {shortanswer.Family(), row(t, shortanswer.Family(), []string{"Lima"}, by(), nil), "Lima", "Oslo", []string{"Lima", "Oslo", "It is Oslo.", "Answer: Oslo", "Answer: Lima\nAnswer: Oslo", "Answer: Lima or Oslo"}},
		"equality":   {shortanswer.Family(), row(t, shortanswer.Family(), []string{"Lima"}, by("type", "text"), nil), "Lima", "Oslo", []string{"Lima", "Oslo", "Answer: Oslo"}},
		"a number":   {shortanswer.Family(), row(t, shortanswer.Family(), []string{"42"}, by(), nil), "42", "41", []string{"42", "41", "It is 41.", "#### 41", `\boxed{41}`}},
		"a set":      {shortanswer.Family(), row(t, shortanswer.Family(), []string{"Lima", "Oslo"}, by("type", "set"), nil), "Lima and Oslo", "Lima", []string{"Lima; Oslo", "Answer: Lima"}},
		"choices":    {multiplechoice.Family(), row(t, multiplechoice.Family(), "B", by(), cities), "Lima", "Oslo", []string{"B", "Lima", "C", "Answer: C", "Answer: B\nAnswer: C", "The answer is Oslo."}},
		"pictures":   {multimodalqa.Family(), row(t, multimodalqa.Family(), "B", by(), cities), "B", "C", []string{"B", "Answer: C"}},
		"no choices": {multimodalqa.Family(), row(t, multimodalqa.Family(), "Lima", by(), nil), "Lima", "Oslo", []string{"Lima", "Answer: Oslo"}},
		"relaxed":    {multimodalqa.Family(), row(t, multimodalqa.Family(), 100, by("type", "relaxed"), nil), "104", "120", []string{"104", "120", "Answer: 120"}},
		"anls":       {multimodalqa.Family(), row(t, multimodalqa.Family(), "Lima", by("type", "anls"), nil), "Lina", "Oslo", []string{"Lima", "Oslo", "Answer: Oslo"}},
	} {
		if fam := tt.fam; fam.Basis(tt.c.Evaluator) != verdict.Computed || !fam.AsksJudge(tt.c.Evaluator) {
			t.Errorf("%s: the row's basis is %s", name, fam.Basis(tt.c.Evaluator))
		}
		panel, asker := judgetest.Panel(judgetest.CarefulReader(), "s")
		v, without := tt.fam.NewVerifier(family.Resources{Judge: panel}), tt.fam.NewVerifier(family.Resources{})
		for _, text := range append(tt.stated, "", "...") {
			got, want := said(t, v, tt.c, text), said(t, without, tt.c, text)
			if got.Outcome != want.Outcome || got.Basis != verdict.Computed || asker.Asked.Load() != 0 {
				t.Errorf("%s: %q: %s, %s after %d questions", name, text, got.Outcome, got.Basis, asker.Asked.Load())
			}
		}
		for answer, want := range map[string]verdict.Outcome{tt.right: verdict.Passed, tt.wrong: verdict.Failed} {
			got := said(t, v, tt.c, prose(answer))
			if got.Outcome != want || got.Basis != verdict.Judged || string(got.Extracted) != answer || len(got.Labels) != 1 || got.Labels[0] != verdict.JudgeRead {
				t.Errorf("%s: %q: %+v", name, answer, got)
			}
			if got := said(t, without, tt.c, prose(answer)); got.Outcome != verdict.Failed || got.Basis != verdict.Computed {
				t.Errorf("%s, without a judge: %q: %+v", name, answer, got)
			}
		}
		if got := said(t, v, tt.c, "I went through every map that there is and asked about, and in the end nobody whom I met could tell me."); got.Outcome != verdict.Failed || got.Extracted != nil {
			t.Errorf("%s, no answer: %+v", name, got)
		}
		specimen, ok := tt.fam.Canaries(tt.c.Evaluator)
		if !ok || specimen.Answer == "" || strings.Contains(specimen.Asked, "match") {
			t.Errorf("%s: canaries %+v, %t", name, specimen, ok)
		}
		if trial, err := panel.Try(t.Context(), []judge.Specimen{specimen}, 4); err != nil || trial.Fault() != "" {
			t.Errorf("%s: a careful judge is refused: %v, %v\n%s", name, trial, err, trial.Table())
		}
	}
}

// TestNotRead: a judge is asked about no row that does not say so.
func TestNotRead(t *testing.T) {
	panel, asker := judgetest.Panel(judgetest.CarefulReader(), "s")
	c := row(t, shortanswer.Family(), []string{"Lima"}, map[string]any{"type": "text"}, nil)
	if got := said(t, shortanswer.Family().NewVerifier(family.Resources{Judge: panel}), c, prose("Lima")); got.Basis != verdict.Computed || asker.Asked.Load() != 0 {
		t.Errorf("%+v after %d questions", got, asker.Asked.Load())
	}
	if fam := shortanswer.Family(); fam.AsksJudge(c.Evaluator) {
		t.Error("the row asks a judge")
	}
}
