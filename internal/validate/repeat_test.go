package validate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/validate"
	"securebench/internal/verdict"
)

// moody passes the word "yes", but not at the attempts that it names.
type moody struct {
	fails []int
	at    int
}

func (m moody) Open(_ context.Context, c family.Case) family.Session { m.at = c.Attempt; return m }
func (moody) Close(context.Context) error                            { return nil }

func (m moody) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	text, err := c.Bytes()
	if err != nil || string(text) != "yes" || slices.Contains(m.fails, m.at) {
		return family.Verdict{Outcome: verdict.Failed, Reason: verdict.TestsFailed, Message: "the tests fail", Containment: verdict.Passive}, err
	}
	return family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive}, nil
}

// TestRepeat: a reference that passes the first time and not always is found, with how often
// it passes; one that always does stays good.
func TestRepeat(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		fails  []int
		repeat int
		ok     bool
		passed int
		say    string
	}{
		{"once is not enough", []int{2}, 1, true, 0, ""},
		{"steady", nil, 5, true, 5, ""},
		{"flaky", []int{2, 4}, 5, false, 3, "flaky: it passes 3 of 5 times; else: the tests fail"},
		{"flaky at first", []int{1}, 5, false, 4, "flaky: it passes 4 of 5 times; else: the tests fail"},
		{"wrong", []int{1, 2, 3}, 3, false, 0, "the tests fail"},
	} {
		tk, err := task.New(task.Config{ID: "q", Family: "moody", Pack: task.Pack{ID: "p"}, Row: []byte("x"), Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}})
		if err != nil {
			t.Fatal(err)
		}
		fam := family.Family{Name: "moody", VerifySeconds: 5, NewVerifier: func(family.Resources) family.Verifier { return moody{} },
			Reference: func(task.EvaluatorView) (family.Solution, bool) { return family.Solve(task.Text, "yes"), true }}
		var got validate.Result
		err = validate.Run(t.Context(), validate.Config{Families: family.NewRegistry(fam), Tasks: each([]task.Task{tk}), Workers: 1, Repeat: tt.repeat,
			Verifiers: map[string]family.Verifier{"moody": moody{fails: tt.fails}}, Done: func(r validate.Result) { got = r }})
		if err != nil {
			t.Fatal(err)
		}
		ref := got.Checks[0]
		if got.OK() != tt.ok || ref.Passed != tt.passed || ref.Message != tt.say {
			t.Errorf("%s: %+v", tt.name, ref)
		}
		var out strings.Builder
		report := validate.NewReport(&out, false, func(line int) string { return fmt.Sprintf("tasks.jsonl:%d", line) }, family.NewRegistry(fam))
		report.Add(got)
		if failed, _ := report.Finish(); (failed == nil) != tt.ok || tt.repeat > 1 != strings.Contains(strings.ToLower(out.String()), fmt.Sprintf("passes %d of %d", tt.passed, tt.repeat)) {
			t.Errorf("%s: %v\n%s", tt.name, failed, out.String())
		}
	}
}
