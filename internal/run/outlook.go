package run

import (
	"context"
	"errors"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/capacity"
	"securebench/internal/scoring"
	"securebench/internal/workload"
)

// Outlook is what a run would be about.
type Outlook struct {
	Agent, Model string
	Work         *workload.Workload
	Chosen       string // by which flags rows were
	Engine       string // its name and why it was taken; "" if none is needed
	Images       []scoring.ImageStock
	Plan         *capacity.Plan
	// Budget is the most that all attempts may cost, in USD; 0 if nothing bounds it.
	Budget float64
	// Total is what they may use together.
	Total harness.Budget
	// Asking is what is known of the agent's requests; nil without a provider.
	Asking *setup.Asking
	// Disk is a line about this machine's disk, or Full why there is no room.
	Disk string
	Full error
}

// Look examines what a run needs, of whose attempts so many are recorded, and whether
// it can be written on the disk of a folder. Nothing is written, made or asked of a
// provider.
func Look(ctx context.Context, o Options, folder string, recorded int) (_ *Outlook, err error) {
	r := newRun(o)
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	attempts := max(0, r.planned().All-recorded)
	defer func() { err = errors.Join(err, r.agent.Close()) }()
	f := r.agent.Facts()
	out := &Outlook{Agent: f.Name, Model: f.Model, Budget: f.Cost * float64(attempts), Total: f.Total, Asking: f.Asking, Work: r.work, Chosen: r.rows.Record().String()}
	if r.scorer, out.Images, err = scoring.TakeStock(ctx, r.work, r.OpenEngine, o.Config.Sandbox, r.warn); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.scorer.CloseEngine()) }()
	if err := r.acceptGiven(); err != nil {
		return nil, err
	}
	if r.scorer.Engine != nil {
		info := r.scorer.Engine.Info()
		if out.Engine = info.Name; info.Choice != "" {
			out.Engine += " (" + info.Choice + ")"
		}
	}
	if err := r.schedule(ctx); err != nil {
		return nil, err
	}
	out.Plan = r.plan
	out.Disk, err = r.writesTo(folder, attempts).Preflight()
	if errors.Is(err, capacity.ErrFull) {
		out.Full, err = err, nil
	}
	return out, classify(err)
}
