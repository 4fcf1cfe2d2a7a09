package subcommand

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/earlier"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/task"
)

// RowsOf calls each with every row of the pack that the runs are bound to.
func RowsOf(ctx context.Context, arg string, runs []*earlier.Run, each func(pack.Row) *source.Problem) error {
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
		if !run.Of(p.Manifest, p.Digests, p.Public) {
			return fault.As(fault.Refused, fmt.Errorf("%s is not the pack of %s", redact.Quote(arg), redact.Quote(run.Name)))
		}
	}
	return nil
}
