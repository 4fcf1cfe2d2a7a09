// Package verify scores stored candidates. A request names all that a
// verification needs, so that another process can make it.
package verify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// cleanupTime bounds the removal of a verification's sandboxes.
const cleanupTime = 30 * time.Second

// Request is one verification. It can be encoded; the content of the candidate
// is in the store.
type Request struct {
	Case      family.Case         `json:"case"`
	Candidate candidate.Candidate `json:"candidate"`
}

// Stage scores candidates. It is safe for concurrent use.
type Stage struct {
	Verifiers map[string]family.Verifier // by family
	Store     *candidate.Store
}

// Verify scores the stored candidate of a request in a session of its own. An
// error is the engine's or the store's.
func (s Stage) Verify(ctx context.Context, req Request) (v family.Verdict, err error) {
	verifier := s.Verifiers[req.Case.Sandbox.Family()]
	if verifier == nil {
		return v, fmt.Errorf("family %s has no verifier", req.Case.Sandbox.Family())
	}
	c, err := s.Store.Find(req.Candidate)
	if err != nil {
		return v, err
	}
	return Score(ctx, verifier.Open(ctx, req.Case), c)
}

// Score scores a candidate in an open session and closes the session.
func Score(ctx context.Context, s family.Session, c candidate.Candidate) (family.Verdict, error) {
	v, err := s.Verify(ctx, c)
	return v, errors.Join(err, Close(ctx, s))
}

// Close closes a session, also after ctx has ended.
func Close(ctx context.Context, s family.Session) error {
	ctx, stop := attended.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer stop()
	return s.Close(ctx)
}

// Cases makes the cases of a run.
type Cases struct {
	Limits sandbox.Limits
	// Timeout is the operator's limit of a verification; 0 is none.
	Timeout time.Duration
	// Derive makes a secret of the run's salt.
	Derive func(label string) [32]byte
}

// Case returns all of an attempt's verification but the candidate.
func (c Cases) Case(t task.Task, fam family.Family, attempt int, img sandbox.Image) family.Case {
	out := family.Case{Attempt: attempt, Sandbox: t.TestSandbox(), Evaluator: t.Evaluator(), Image: img, Limits: c.Limits}
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
func Unscored(t task.Task, fam family.Family, v family.Verifier) (reason verdict.Reason, message string) {
	switch {
	case v == nil:
		return verdict.NoVerifier, fmt.Sprintf("family %s has no verifier", t.Family())
	case fam.Pending != nil:
		return fam.Pending(t.TestSandbox(), t.Evaluator())
	}
	return "", ""
}

// Reference returns a row's own solution; a candidate among them stands alone.
func Reference(ctx context.Context, v family.Verifier, fam family.Family, c family.Case) (family.Solution, bool, error) {
	if full, ok := v.(family.Completer); ok {
		cand, found, err := full.Complete(ctx, c)
		return family.Solution{Candidate: cand}, found, err
	}
	if fam.Reference == nil {
		return family.Solution{}, false, nil
	}
	sol, ok := fam.Reference(c.Evaluator)
	return sol, ok, nil
}
