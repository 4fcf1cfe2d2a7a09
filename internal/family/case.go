package family

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Cases makes the cases of a run.
type Cases struct {
	Limits sandbox.Limits
	// Timeout is the operator's limit of a verification; 0 is none.
	Timeout time.Duration
	// Derive makes a secret of the run's salt.
	Derive func(label string) [32]byte
}

// Case returns all of an attempt's verification but the candidate.
func (c Cases) Case(t task.Task, fam Family, attempt int, img sandbox.Image) Case {
	out := Case{Attempt: attempt, Sandbox: t.TestSandbox(), Evaluator: t.Evaluator(), Image: img, Limits: c.Limits}
	out.Limits.Timeout = fam.VerifyLimit(out.Sandbox, c.Timeout)
	if c.Derive != nil {
		out.Seed = c.Derive(seedLabel(t.ID(), attempt))
	}
	return out
}

// seedLabel names the secret of an attempt. It is part of the format: the same
// salt must give the same tests when a run is verified again.
func seedLabel(taskID string, attempt int) string {
	return "oracle-seed\x00" + taskID + "\x00" + strconv.Itoa(attempt)
}

// Unscored says why a task stays pending, or "".
func (f Family) Unscored(t task.Task, v Verifier) (reason verdict.Reason, message string) {
	if v == nil {
		return verdict.NoVerifier, fmt.Sprintf("family %s has no verifier", t.Family())
	}
	if reason, message = f.unjudged(t.Evaluator()); reason != "" {
		return reason, message
	}
	if f.Pending != nil {
		return f.Pending(t.TestSandbox(), t.Evaluator())
	}
	return "", ""
}

// Solution returns a row's own solution; one that is a candidate is all there is.
func (f Family) Solution(ctx context.Context, v Verifier, c Case) (Solution, bool, error) {
	if full, ok := v.(Completer); ok {
		cand, found, err := full.Complete(ctx, c)
		return Solution{Candidate: cand}, found, err
	}
	if f.Reference == nil {
		return Solution{}, false, nil
	}
	sol, ok := f.Reference(c.Evaluator)
	return sol, ok, nil
}
