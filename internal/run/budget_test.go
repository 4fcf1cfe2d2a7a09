package run

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/verdict"
)

// TestResumeAfterBudget: an attempt that spent its budget has its outcome. It is
// not run again when the run is resumed, and costs nothing more.
func TestResumeAfterBudget(t *testing.T) {
	a := newAgents(t, "codex", "model: gpt-1\nbudget: {requests: 2}\n")
	const path = "/opt/securebench/codex/bin/codex"
	honest := a.programs[path]
	a.programs[path] = func(ctx context.Context, p *sandboxtest.Process) int { // asks three times
		if slices.Contains(p.Args, "--version") {
			return honest(ctx, p)
		}
		return max(honest(ctx, p), honest(ctx, p), honest(ctx, p))
	}
	for _, mode := range []Mode{Fresh, Resume} {
		sum, _ := a.run(mode)
		if n := a.asked(); sum.Total != 6 || sum.Of(verdict.Computed).Failed != 6 || n != 12 {
			t.Errorf("%q: %+v after %d requests", mode, sum, n)
		}
	}
	text, err := os.ReadFile(filepath.Join(a.opts.Config.OutputDir, record.LinesName))
	if n := strings.Count(string(text), `"failure_reason": "budget"`); err != nil || n != 6 {
		t.Errorf("%d records name the budget, %v: %.2000s", n, err, text)
	}
}

// drive runs a part of a run to its end.
func (a *agents) drive(mode Mode) (pipeline.Summary, error) {
	a.t.Helper()
	a.opts.Mode = mode
	r, err := Open(a.t.Context(), a.opts)
	if err != nil {
		a.t.Fatal(err)
	}
	sum, err := r.Drive(a.t.Context())
	if cerr := r.Close(); cerr != nil {
		a.t.Error(cerr)
	}
	return sum, err
}

// asked is how many requests to the model reached the provider.
func (a *agents) asked() (n int) {
	for _, r := range a.provider.Requests() {
		if r.Method == http.MethodPost {
			n++
		}
	}
	return n
}

// TestRunBudget: a run whose attempts together have used its budget ends unsigned, in one
// line, with the records of those that needed no more. No attempt fails for that. A
// resume with a larger budget goes on: it counts what was used before, also by attempts
// that were cut short, and keeps every record.
func TestRunBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, model          string
		more, workers        int
		total, fewer, larger int // requests
		recorded             int
	}{
		"codex":             {"codex", "gpt-1", 0, 1, 4, 5, 6, 4},
		"many at a time":    {"codex", "gpt-1", 0, 6, 3, 5, 6, 3},
		"within an attempt": {"claude_code", "claude-one-1", 1, 1, 5, 12, 14, 2}, // two attempts are cut short and make one request twice
		"a model":           {"model", "gpt-1", 0, 2, 4, 5, 6, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := func(a *agents, total int) {
				a.configure(tt.kind, fmt.Sprintf("model: %s\nbudget: {total: {requests: %d}}\n", tt.model, total))
			}
			a := newAgents(t, tt.kind, "model: "+tt.model)
			a.opts.Config.MaxWorkers, a.more = tt.workers, tt.more
			set(a, tt.total)
			for _, mode := range []Mode{Fresh, Resume} {
				sum, err := a.drive(mode)
				want := fmt.Sprintf("harness.config.budget.total is spent: %[1]d of %[1]d requests", tt.total)
				if err == nil || err.Error() != want || fault.KindOf(err) != fault.Interrupted {
					t.Errorf("%q: %v, want %s", mode, err, want)
				}
				if n := a.asked(); sum.Of(verdict.Computed).Passed != tt.recorded || sum.Total != tt.recorded || n != tt.total {
					t.Errorf("%q: %+v after %d requests", mode, sum, n)
				}
				if _, err := os.Stat(filepath.Join(a.opts.Config.OutputDir, record.StatementName)); !os.IsNotExist(err) {
					t.Errorf("the run is signed: %v", err)
				}
			}
			before := a.used(a.opts.Config.OutputDir)
			set(a, tt.fewer)
			if sum, err := a.drive(Resume); fault.KindOf(err) != fault.Interrupted || sum.Of(verdict.Computed).Passed != 5 {
				t.Errorf("a budget with one request too few: %+v, %v", sum, err)
			}
			set(a, tt.larger)
			sum, err := a.drive(Resume)
			if err != nil || sum.Of(verdict.Computed).Passed != 6 {
				t.Errorf("%+v, %v", sum, err)
			}
			requests := int64(0)
			after := a.used(a.opts.Config.OutputDir)
			for key, l := range after {
				requests += l.Usage["requests"]
				if was := before[key]; was != nil && was.Timings["total"] != l.Timings["total"] {
					t.Errorf("%v was run again", key)
				}
			}
			if n := a.asked(); n != tt.larger || requests != int64(n) {
				t.Errorf("%d requests reached the provider, and %d are in records; want %d", n, requests, tt.larger)
			}
			res, err := evidence.Verify(t.Context(), os.DirFS(a.opts.Config.OutputDir), evidence.Options{})
			if err != nil || !res.OK() {
				t.Errorf("%+v, %v", res.Problems, err)
			}
		})
	}
}

// TestRunBudgetIsNoInput: a run can be resumed with another budget of the whole run, or
// with none. Another budget of each attempt is another input.
func TestRunBudgetIsNoInput(t *testing.T) {
	a := newAgents(t, "codex", "model: gpt-1\nbudget: {requests: 2, total: {requests: 4}}\n")
	if _, err := a.drive(Fresh); fault.KindOf(err) != fault.Interrupted {
		t.Fatal(err)
	}
	for extra, same := range map[string]bool{
		"budget: {requests: 2, total: {requests: 4, tokens: 9999999}}": true,
		"budget: {requests: 2}":                       true,
		"budget: {requests: 3, total: {requests: 4}}": false,
		"": false,
	} {
		a.configure("codex", "model: gpt-1\n"+extra)
		if err := a.open(Resume); (err == nil) != same || !same && fault.KindOf(err) != fault.Refused {
			t.Errorf("%s: %v", extra, err)
		}
	}
}
