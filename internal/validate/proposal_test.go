package validate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/validate"
	"securebench/internal/verdict"
)

// picky is a verifier that passes one text. The other is what it says that a row could
// have instead.
type picky struct {
	right string
	other *picky
}

func (p picky) Open(context.Context, family.Case) family.Session { return p }

func (picky) Close(context.Context) error { return nil }

func (p picky) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	data, err := c.Bytes()
	out := family.Verdict{Outcome: verdict.Failed, Reason: verdict.TestsFailed}
	if string(data) == p.right {
		out.Outcome, out.Reason = verdict.Passed, ""
	}
	return out, err
}

func (p picky) Alternatives(_ family.Case, passed bool) []family.Alternative {
	if passed {
		return nil
	}
	return []family.Alternative{{Verifier: p.other, Advice: "set the other form"}}
}

// TestProposal: the other form is proposed if the reference passes by it alone.
func TestProposal(t *testing.T) {
	for _, tt := range []struct {
		name, right, otherRight, want string
	}{
		{"the row is as it should be", "solution", "solution", ""},
		{"the other form alone", "never", "solution", "set the other form"},
		{"neither", "never", "never", ""},
	} {
		fam := family.Family{Name: "f", Reference: func(task.EvaluatorView) (family.Solution, bool) { return family.Solve(task.Code, "solution"), true }}
		var out strings.Builder
		report := validate.NewReport(&out, false, func(line int) string { return fmt.Sprintf("rows.jsonl:%d", line) }, family.NewRegistry(fam))
		err := validate.Run(t.Context(), validate.Config{Families: family.NewRegistry(fam),
			Verifiers: map[string]family.Verifier{"f": picky{tt.right, &picky{right: tt.otherRight}}}, Workers: 1, Done: report.Add,
			Tasks: func(yield func(task.Task, error) bool) {
				yield(task.New(task.Config{ID: "a", Family: "f", Line: 4, Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Code}}))
			}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = report.Finish()
		if got := strings.Contains(out.String(), "rows.jsonl:4: a: proposal: set the other form\n"); got != (tt.want != "") {
			t.Errorf("%s:\n%s", tt.name, out.String())
		}
	}
}
