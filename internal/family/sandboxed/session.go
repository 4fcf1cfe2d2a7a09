// Package sandboxed verifies candidates in sandboxes: it provides the session,
// its sandboxes and workspaces on the engine, what their end says about the
// candidate, and what is found out once per image. A family adds its rows and a
// [Scorer].
package sandboxed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/workspace"
)

// StartLimit bounds the wait for sandboxes, and what else the engine does for a
// verification. Beyond it the engine is at fault.
const StartLimit = 2 * time.Minute

// ErrSlow is the cause of a verification that takes too long although each of its
// commands is bounded.
var ErrSlow = errors.New("the engine takes too long")

// Scorer scores one candidate. The session calls its methods in their order, unless one
// fails; Describe comes last in any case. A [family.Failure] is the candidate's or the
// row's, any other error the engine's or this process's.
type Scorer interface { //nolint:interfacebloat // the stages of one verification
	// Read takes what is scored from a candidate. A failure needs no sandbox.
	Read(c candidate.Candidate) error
	// Limit bounds all that follows, beside the wait for the engine.
	Limit() time.Duration
	// Open makes the sandboxes. Nothing of the candidate's is in them: it may be called
	// before there is one.
	Open(ctx context.Context, site *Site) error
	// Score takes the steps in the sandboxes. A nil error is a pass.
	Score(ctx context.Context) error
	// Settle ends every process of the sandboxes, and judges what Score returned by how
	// they ended.
	Settle(ctx context.Context, err error) error
	// Describe adds what the scorer knows to a verdict that has its outcome: the
	// containment, labels, metadata, the raw output, the phase. The row may have been
	// refused, and the candidate may not have been scored.
	Describe(v *family.Verdict)
}

// Options say how a family's sessions differ.
type Options struct {
	// Ahead makes the sandboxes when the session is opened, while the agent works.
	// Otherwise they are made once the candidate is there.
	Ahead bool
	// Begin makes the scorer of a case. A failure refuses the row.
	Begin func(c family.Case) (Scorer, *family.Failure)
}

// NewVerifier makes a verifier that scores each candidate in sandboxes of its own. It
// starts nothing, and keeps nothing on the engine.
func NewVerifier(r family.Resources, o Options) family.Verifier { return &verifier{r, o} }

type verifier struct {
	resources family.Resources
	options   Options
}

// Open implements [family.Verifier].
func (v *verifier) Open(ctx context.Context, c family.Case) family.Session {
	s := &session{resources: v.resources, c: c}
	s.scorer, s.refused = v.options.Begin(c)
	if v.options.Ahead && s.refused == nil && !c.Lazy {
		s.open(ctx)
	}
	return s
}

// Close implements [family.Verifier].
func (v *verifier) Close(context.Context) error { return nil }

// session is the verification of one attempt.
type session struct {
	resources family.Resources
	c         family.Case
	scorer    Scorer
	refused   *family.Failure
	site      *Site // nil until it is begun
	opening   opening
	waited    time.Duration
}

// opening is a site whose sandboxes are being made.
type opening struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // once that is done
}

// open begins to make the sandboxes.
func (s *session) open(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	s.site, s.opening = NewSite(s.resources, s.c), opening{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.opening.done)
		s.opening.err = s.scorer.Open(ctx, s.site)
	}()
}

// wait waits until the sandboxes are there.
func (s *session) wait(ctx context.Context) error {
	defer func(start time.Time) { s.waited = time.Since(start) }(time.Now())
	select {
	case <-s.opening.done:
		return s.opening.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the sandboxes of a verification: %w", context.Cause(ctx))
	}
}

// Verify implements [family.Session].
func (s *session) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	if s.refused != nil {
		return s.verdict(s.refused), nil
	}
	err := family.Blame(s.verify(ctx, c), checkout.ErrUnusable, sandbox.ErrNoFolder, sandbox.ErrTooSmall, sandbox.ErrUnusable, workspace.ErrChanged)
	var f *family.Failure
	if err != nil && !errors.As(err, &f) {
		return family.Verdict{}, err
	}
	return s.verdict(f), nil
}

// verify scores a candidate. A nil error is a pass. A tree is opened once, however often
// the scorer reads it.
func (s *session) verify(ctx context.Context, c candidate.Candidate) error {
	c, done, err := c.Hold()
	if err != nil {
		return err
	}
	defer func() { _ = done() }() // it was only read
	if err := s.scorer.Read(c); err != nil {
		return err
	}
	ctx, cancel := attended.WithTimeoutCause(ctx, s.scorer.Limit()+StartLimit, ErrSlow)
	defer cancel()
	if s.site == nil {
		s.open(ctx)
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	err = s.scorer.Score(ctx)
	ctx, stop := attended.WithTimeout(context.WithoutCancel(ctx), StartLimit)
	defer stop()
	return s.scorer.Settle(ctx, err)
}

// verdict describes the verification; a nil failure is a pass.
func (s *session) verdict(f *family.Failure) family.Verdict {
	v := family.VerdictOf(f)
	v.Waited = s.waited
	s.scorer.Describe(&v)
	if s.site.writable() && s.resources.Engine.Info().DiskSampled {
		v.Labels = append(slices.Clone(v.Labels), family.DiskSampled)
	}
	return v
}

// Close removes the sandboxes, even if they never became ready.
func (s *session) Close(ctx context.Context) error {
	if s.site == nil {
		return nil
	}
	s.opening.stop()
	<-s.opening.done
	return s.site.Close(ctx)
}
