package subcommand

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/task"
)

// BoundRun is a run that a pack must be that of.
type BoundRun struct {
	Name     string // in errors
	Manifest record.Manifest
	// Hidden are the plain digests of the run's pack, nil where they are not there.
	Hidden *record.PackDigests
}

// RowsOf calls each with every row of the pack that the runs are bound to.
func RowsOf(ctx context.Context, arg string, runs []BoundRun, each func(pack.Row) *source.Problem) error {
	loc, _, err := Locate(arg)
	if err != nil {
		return err
	}
	var problems source.Problems
	p, err := compile.Load(ctx, loc, families.All(), func(row pack.Row, _ func() (task.Task, error)) {
		if problem := each(row); problem != nil {
			problems = append(problems, problem)
		}
	})
	if ctx.Err() != nil {
		return fault.As(fault.Interrupted, errors.New("interrupted while reading the pack"))
	}
	if err = errors.Join(err, problems.Err()); err != nil {
		return fault.As(fault.Pack, err)
	}
	for _, run := range runs {
		m := run.Manifest
		hidden := run.Hidden == nil || run.Hidden.Pack == p.Digests.Pack
		if m.Pack.ID != p.Manifest.ID || m.Pack.Version != p.Manifest.Version || m.Digests.Manifest != p.Digests.Manifest || m.Digests.Public != p.Public || !hidden {
			return fault.As(fault.Refused, fmt.Errorf("%s is not the pack of %s", redact.Quote(arg), redact.Quote(run.Name)))
		}
	}
	return nil
}
