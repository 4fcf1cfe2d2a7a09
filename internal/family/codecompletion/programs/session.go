package programs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
)

// Scorer scores one program by the tests of its row. What all forms of tests do
// alike is the session's: to make the box, to wait for it, to judge its end, and to
// remove it.
type Scorer interface {
	// Read takes the program from a candidate. A [family.Failure] needs no box.
	Read(c candidate.Candidate) (Source, error)
	// Score scores the program in a box in which nothing has run. A nil error is a
	// pass, and a [family.Failure] is none.
	Score(ctx context.Context, b *Box, program Source) error
	// Describe adds what the scorer knows to a verdict that has its outcome: the
	// containment, metadata, the raw output, the phase of a failure. The row may have
	// been refused, and the program may not have been scored.
	Describe(v *family.Verdict)
}

// Begin makes the scorer of a case. A failure refuses the row.
type Begin func(c family.Case) (Scorer, *family.Failure)

// NewVerifier makes a verifier that scores each program in a box of its own. It
// starts nothing, and keeps nothing on the engine.
func NewVerifier(r family.Resources, o Options, begin Begin) family.Verifier {
	return &verifier{r, o, begin}
}

type verifier struct {
	resources family.Resources
	options   Options
	begin     Begin
}

// Open begins to make the box.
func (v *verifier) Open(ctx context.Context, c family.Case) family.Session {
	s := &session{verifier: v, c: c}
	s.scorer, s.refused = v.begin(c)
	if s.refused == nil && !c.Lazy {
		s.prepare(ctx)
	}
	return s
}

// Close implements [family.Verifier].
func (v *verifier) Close(context.Context) error { return nil }

// session is the verification of one attempt.
type session struct {
	verifier *verifier
	c        family.Case
	scorer   Scorer
	refused  *family.Failure
	box      *pending // nil until it is begun
	program  Source
	waited   time.Duration
}

// prepare begins to make the box in the background.
func (s *session) prepare(ctx context.Context) {
	p := &pending{done: make(chan struct{})}
	ctx, p.cancel = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		p.box, p.err = start(ctx, s.verifier.resources, s.c, s.verifier.options)
	}()
	s.box = p
}

// Verify scores the candidate's program.
func (s *session) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	if s.refused != nil {
		return s.verdict(s.refused), nil
	}
	err := s.verify(ctx, c)
	var f *family.Failure
	if err != nil && !errors.As(err, &f) {
		return family.Verdict{}, err
	}
	return s.verdict(f), nil
}

// verify scores the candidate's program. A nil error is a pass.
func (s *session) verify(ctx context.Context, c candidate.Candidate) (err error) {
	if s.program, err = s.scorer.Read(c); err != nil {
		return err
	}
	if s.box == nil {
		s.prepare(ctx)
	}
	begun := time.Now()
	box, err := s.box.wait(ctx)
	s.waited = time.Since(begun)
	if err != nil {
		return err
	}
	return box.settle(ctx, s.scorer.Score(ctx, box, s.program))
}

// verdict describes the verification; a nil failure is a pass.
func (s *session) verdict(f *family.Failure) family.Verdict {
	v := family.VerdictOf(f)
	v.Waited, v.Extraction, v.Extracted = s.waited, s.program.How, s.program.Taken
	s.scorer.Describe(&v)
	return v
}

// Close removes the box, even if it never became ready.
func (s *session) Close(ctx context.Context) error {
	if s.box == nil {
		return nil
	}
	box := s.box
	s.box = nil
	return box.close(ctx)
}

// pending is a box that is made in the background.
type pending struct {
	cancel context.CancelFunc
	done   chan struct{}
	box    *Box
	err    error
}

// wait returns the box once it is ready.
func (p *pending) wait(ctx context.Context) (*Box, error) {
	select {
	case <-p.done:
		return p.box, p.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the sandbox: %w", context.Cause(ctx))
	}
}

func (p *pending) close(ctx context.Context) error {
	p.cancel()
	<-p.done
	return p.box.close(ctx)
}
