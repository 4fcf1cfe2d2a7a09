package forms

import (
	"context"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
)

// programScorer scores one program by the tests of its row.
type programScorer interface {
	// read takes the program from a candidate. A [family.Failure] needs no box.
	Read(c candidate.Candidate) (source, error)
	// Score scores the program in a box in which nothing has run. A nil error is a
	// pass, and a [family.Failure] is none.
	Score(ctx context.Context, b *programBox, program source) error
	// Describe adds what the scorer knows to a verdict; see [sandboxed.Scorer].
	Describe(v *family.Verdict)
}

// newProgramVerifier makes a verifier that scores each program in a box of its own, with
// a folder for tests if it has tests. begin makes the scorer of a case; its failure
// refuses the row.
func newProgramVerifier(r family.Resources, tests bool, begin func(family.Case) (programScorer, *family.Failure)) family.Verifier {
	return sandboxed.NewVerifier(r, sandboxed.Options{Ahead: true, Begin: func(c family.Case) (sandboxed.Scorer, *family.Failure) {
		scorer, refused := begin(c)
		return &verification{programScorer: scorer, c: c, tests: tests}, refused
	}})
}

// verification scores one program in its box.
type verification struct {
	programScorer
	c       family.Case
	tests   bool // it has a folder of tests
	box     *programBox
	program source
}

// Read implements [sandboxed.Scorer].
func (v *verification) Read(c candidate.Candidate) (err error) {
	v.program, err = v.programScorer.Read(c)
	return err
}

// Limit implements [sandboxed.Scorer]: each command is bounded.
func (v *verification) Limit() time.Duration { return life(v.c) }

// Open makes the box.
func (v *verification) Open(ctx context.Context, site *sandboxed.Site) (err error) {
	v.box, err = open(ctx, site, v.c, v.tests)
	return err
}

// Score implements [sandboxed.Scorer].
func (v *verification) Score(ctx context.Context) error {
	return v.programScorer.Score(ctx, v.box, v.program)
}

// Settle implements [sandboxed.Scorer].
func (v *verification) Settle(ctx context.Context, err error) error { return v.box.settle(ctx, err) }

// Describe adds what was taken from the candidate.
func (v *verification) Describe(d *family.Verdict) {
	d.Extraction, d.Extracted = v.program.How, v.program.Taken
	v.programScorer.Describe(d)
}
