package run

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox/sandboxtest"
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
		if n := len(a.provider.Requests()); sum.Total != 6 || sum.Failed != 6 || n != 12 {
			t.Errorf("%q: %+v after %d requests", mode, sum, n)
		}
	}
	text, err := os.ReadFile(filepath.Join(a.opts.Config.OutputDir, record.LinesName))
	if n := strings.Count(string(text), `"failure_reason": "budget"`); err != nil || n != 6 {
		t.Errorf("%d records name the budget, %v: %.2000s", n, err, text)
	}
}
