package run

import (
	"bytes"
	"context"
	"slices"

	"securebench/internal/rowset"
	"securebench/internal/selection"
	"securebench/internal/workload"
	"securebench/internal/workspace"
)

// loadRows loads the pack with the rows that are wanted, in the order in which
// they run.
func (r *Run) loadRows(ctx context.Context, d workload.Demands) (err error) {
	limit := r.Limit
	if r.Choice.Any() {
		if r.rows, err = selection.Choose(ctx, r.Pack, r.Choice, limit); err != nil {
			return err
		}
		d.Rows, limit = r.rows.Has, workload.All
	}
	if r.work, err = workload.Load(ctx, r.Pack, r.Families, limit, d); err != nil || r.rows == nil {
		return err
	}
	if err := r.rows.Of(r.work.Pack); err != nil {
		return err
	}
	order := r.rows.Order()
	slices.SortFunc(r.work.Rows, func(a, b workload.Row) int {
		x, y := order(a.ID, a.Index), order(b.ID, b.Index)
		return bytes.Compare(x[:], y[:])
	})
	return nil
}

// selected is what run.json says of the choice.
func (r *Run) selected() *rowset.Selection {
	if r.rows == nil {
		return nil
	}
	return r.rows.Record()
}

// folders are the names of tasks' folders. They depend on the pack alone: each of
// its rows gets one, in pack order, whichever rows run and in whatever order.
type folders struct {
	workspace.Namer
	// other has the names that are not those of [workspace.DirName], by id.
	other map[string]string
}

// note names the next row's folder.
func (f *folders) note(id string) {
	if name := f.Name(id); name != workspace.DirName(id) {
		if f.other == nil {
			f.other = map[string]string{}
		}
		f.other[id] = name
	}
}

// of returns the name of a row's folder.
func (f *folders) of(id string) string {
	if name, ok := f.other[id]; ok {
		return name
	}
	return workspace.DirName(id)
}
