package run

import (
	"context"
	"errors"

	"securebench/internal/capacity"
	"securebench/internal/rowset"
	"securebench/internal/scoring"
	"securebench/internal/workload"
)

// Outlook is what a run would be about.
type Outlook struct {
	Agent, Model string
	Work         *workload.Workload
	Selection    *rowset.Selection // nil unless flags chose rows
	Stock        *scoring.Stock
	// Disk is a line about this machine's disk, or Full why there is no room.
	Disk string
	Full error
}

// Look examines what a run needs, of whose attempts so many are recorded, and whether
// it can be written on the disk of a folder. Nothing is written, made or asked of a
// provider.
func Look(ctx context.Context, o Options, folder string, recorded int) (*Outlook, error) {
	r := &Run{Options: o}
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	out := &Outlook{Agent: r.agentName(), Work: r.work, Selection: r.selected()}
	if rel := r.needs().Provider(); rel != nil {
		out.Model = rel.Model
	}
	var err error
	if out.Stock, err = scoring.TakeStock(ctx, r.work, o.OpenEngine, o.Config, r.warn); err != nil {
		return nil, err
	}
	r.plan = out.Stock.Plan
	out.Disk, err = r.writesTo(folder, max(0, r.Planned()-recorded)).Preflight(disks())
	if errors.Is(err, capacity.ErrFull) {
		out.Full, err = err, nil
	}
	return out, classify(err)
}
