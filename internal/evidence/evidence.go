// Package evidence verifies recorded runs: that the directory of a
// run, or a bundle of it, is complete, unchanged and signed. It needs no network,
// no engine and no pack.
package evidence

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"securebench/internal/attest"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// Problem is one thing that is wrong, and where.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitzero"` // from 1
	What string `json:"what"`
}

// String returns "file:line: what", safe for a terminal.
func (p Problem) String() string {
	at := redact.Quote(p.File)
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, p.Line)
	}
	return redact.Escape(at + ": " + p.What)
}

// maxProblems is how many problems a result lists; more are counted.
const maxProblems = 1000

// Result is what a check found.
type Result struct {
	Manifest  record.Manifest
	Statement attest.Statement
	// Signer is the key of the statement's signature. It is set only if the
	// signature is right; whether the key is trusted is for the caller.
	Signer attest.PublicKey
	// Sealed says that there is a statement and that it can be read.
	Sealed bool
	// Published says that the operator's folders are absent, as in a copy
	// that was published: what they hold could not be checked.
	Published bool
	// Unfinished says that there is no statement: the run was interrupted, is
	// under way, or its end was removed. That is no problem of its own, but such
	// a run is not [Result.OK].
	Unfinished bool
	Records    int64
	// Suspect are the lines of candidates.jsonl with a problem of their own.
	Suspect  map[int]bool
	Problems []Problem
	More     int // problems beyond those listed
	// Notes are what is not wrong and should be known.
	Notes []string
}

// OK reports that the run is complete, and nothing is wrong with it.
func (r *Result) OK() bool { return len(r.Problems) == 0 && !r.Unfinished }

// Progress says how far an unfinished run came.
func (r *Result) Progress() string {
	return fmt.Sprintf("%d of %d", r.Records, r.Planned())
}

// Planned is how many attempts the run planned, as far as that is known.
func (r *Result) Planned() int64 {
	return int64(r.Manifest.Planned.Tasks) * int64(r.Manifest.Planned.Attempts)
}

func (r *Result) problem(file string, line int, format string, args ...any) {
	if len(r.Problems) >= maxProblems {
		r.More++
		return
	}
	for i, a := range args {
		if err, ok := a.(error); ok {
			args[i] = source.Words(err)
		}
	}
	r.Problems = append(r.Problems, Problem{file, line, fmt.Sprintf(format, args...)})
}

// Options are what a caller of [Verify] wants beyond the check.
type Options struct {
	// Each is called with every record that can be read, in order.
	Each func(record.Entry)
	// Explain looks for what changed records said before, which takes a while.
	Explain bool
}

// Verify checks the run in fsys. What is wrong with it is in the result, what
// cannot be read included; the error is the context's.
func Verify(ctx context.Context, fsys fs.FS, opts Options) (*Result, error) {
	c := newCheck(ctx, fsys, &Result{})
	c.opts = opts
	for _, step := range []func(){c.layout, c.statement, c.manifest, c.secrets, c.limits, c.lines, c.complete, c.captured, c.store, c.restricted, c.history, c.trace} {
		step()
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("verifying: %w", err)
	}
	if c.leftover > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("files and folders of attempts that have no record: %d", c.leftover))
	}
	slices.SortStableFunc(c.Problems, func(a, b Problem) int {
		return cmp.Or(c.rank(a)-c.rank(b), strings.Compare(a.File, b.File))
	})
	return c.Result, nil
}
