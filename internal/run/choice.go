package run

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"securebench/internal/redact"
	"securebench/internal/selection"
	"securebench/internal/workload"
)

// loadRows loads the pack with the rows that are wanted, in the order in which
// they run.
func (r *Run) loadRows(ctx context.Context, d workload.Demands) (err error) {
	limit := r.Limit
	if d.Shots != nil {
		if d.Examples, err = workload.ChooseExamples(ctx, r.Pack, r.Families, *d.Shots); err != nil {
			return err
		}
		r.Choice.Examples = d.Examples
	}
	if r.Choice.Any() {
		if r.rows, err = selection.Choose(ctx, r.Pack, r.Families, r.Choice, limit); err != nil {
			return err
		}
		d.Rows, limit = r.rows.Has, workload.All
	}
	if r.work, err = workload.Load(ctx, r.Pack, r.Families, limit, d); err != nil {
		return err
	}
	if r.rows != nil {
		if err := r.rows.Of(r.work.Pack); err != nil {
			return err
		}
		if n := r.rows.Gone(); n > 0 {
			r.warn(fmt.Sprintf("--failed-in %s: tasks that did not pass there and are not in this pack: %d", redact.Quote(r.Choice.FailedIn.Name), n))
		}
		order := r.rows.Order()
		slices.SortFunc(r.work.Rows, func(a, b workload.Row) int {
			x, y := order(a.ID, a.Index), order(b.ID, b.Index)
			return bytes.Compare(x[:], y[:])
		})
	}
	if r.Accept != nil {
		return r.Accept(r.work)
	}
	return nil
}
