package programs

import (
	"context"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
)

// Scorer scores one program by the tests of its row.
type Scorer interface {
	// Read takes the program from a candidate. A [family.Failure] needs no box.
	Read(c candidate.Candidate) (Source, error)
	// Score scores the program in a box in which nothing has run. A nil error is a
	// pass, and a [family.Failure] is none.
	Score(ctx context.Context, b *Box, program Source) error
	// Describe adds what the scorer knows to a verdict; see [sandboxed.Scorer].
	Describe(v *family.Verdict)
}

// Begin makes the scorer of a case. A failure refuses the row.
type Begin func(c family.Case) (Scorer, *family.Failure)

// NewVerifier makes a verifier that scores each program in a box of its own.
func NewVerifier(r family.Resources, o Options, begin Begin) family.Verifier {
	return sandboxed.NewVerifier(r, sandboxed.Options{Ahead: true, Begin: func(c family.Case) (sandboxed.Scorer, *family.Failure) {
		scorer, refused := begin(c)
		return &verification{Scorer: scorer, c: c, options: o}, refused
	}})
}

// verification scores one program in its box.
type verification struct {
	Scorer
	c       family.Case
	options Options
	box     *Box
	program Source
}

// Read implements [sandboxed.Scorer].
func (v *verification) Read(c candidate.Candidate) (err error) {
	v.program, err = v.Scorer.Read(c)
	return err
}

// Limit implements [sandboxed.Scorer]: each command is bounded.
func (v *verification) Limit() time.Duration { return life(v.c) }

// Open makes the box.
func (v *verification) Open(ctx context.Context, site *sandboxed.Site) (err error) {
	v.box, err = open(ctx, site, v.c, v.options)
	return err
}

// Score implements [sandboxed.Scorer].
func (v *verification) Score(ctx context.Context) error { return v.Scorer.Score(ctx, v.box, v.program) }

// Settle implements [sandboxed.Scorer].
func (v *verification) Settle(ctx context.Context, err error) error { return v.box.settle(ctx, err) }

// Describe adds what was taken from the candidate.
func (v *verification) Describe(d *family.Verdict) {
	d.Extraction, d.Extracted = v.program.How, v.program.Taken
	v.Scorer.Describe(d)
}
