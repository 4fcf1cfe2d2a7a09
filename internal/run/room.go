package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"securebench/internal/capacity"
	"securebench/internal/fault"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
)

// recordRoom bounds a record and what the framework adds to an attempt's files.
const recordRoom = 4 << 20

// What an attempt writes in most runs.
const (
	usualRecord = 16 << 10 // with a candidate that is a text
	usualSteps  = 64 << 10 // of an agent that is asked, and what it prints
	usualOutput = 16 << 10 // of tests and checkers
	usualTree   = 1 << 20  // of a candidate that is a tree
)

// schedule decides how many tasks run at the same time.
func (r *Run) schedule(ctx context.Context) (err error) {
	if r.Hub != nil {
		r.plan = r.Hub.Plan(r.Config, r.agent.Facts())
		return nil
	}
	cfg, f := *r.Config, r.agent.Facts()
	cfg.MaxWorkers = cmp.Or(cfg.MaxWorkers, f.Workers)
	r.plan, err = r.scorer.Plan(ctx, r.work, &cfg)
	if err == nil && r.Config.MaxWorkers == 0 && f.Workers > 0 {
		r.plan.Why = f.WorkersWhy
	}
	if err != nil || f.Connections == 0 || r.plan.Workers <= f.Connections {
		return err
	}
	cfg.MaxWorkers = f.Connections
	r.plan, err = r.scorer.Plan(ctx, r.work, &cfg)
	if err == nil {
		r.plan.Why = "max_connections of the provider"
	}
	return err
}

// scheduled describes the decision in run.json.
func (r *Run) scheduled() *record.Schedule {
	return &record.Schedule{Workers: r.plan.Workers, Why: r.plan.Why, Memory: r.plan.Most.Memory, MemoryUsable: r.plan.Usable.Memory}
}

// writes is what the run may write on this machine: candidates, what the agent
// and the verifier print, and records.
func (r *Run) writes() capacity.Writes {
	return r.writesTo(r.dir.Path(), r.planned().All-len(r.kept))
}

// writesTo is what so many attempts may write, with an output directory on the
// disk of a path.
func (r *Run) writesTo(path string, attempts int) capacity.Writes {
	l := r.Config.Limits
	w := capacity.Writes{Output: path, Temp: os.TempDir(), Attempts: attempts, Workers: r.plan.Workers,
		Attempt: l.Candidate + recordRoom, Usual: usualRecord}
	if !r.agent.Facts().BuiltIn {
		w.Attempt, w.Usual = w.Attempt+l.Output, w.Usual+usualSteps
	}
	if r.work.Verifies() {
		w.Attempt, w.Usual = w.Attempt+l.Output, w.Usual+usualOutput
	}
	if r.work.Kinds[task.Workspace] {
		w.Attempt, w.Usual, w.Spool = w.Attempt-l.Candidate+l.Disk, w.Usual+usualTree, l.Disk
	}
	if r.Hub != nil { // most attempts are queued, and candidates go straight to the store
		w.Workers, w.Spool = min(w.Workers, mostWriters), 0
	}
	return w
}

// preflight returns a line about the disk, or why the run cannot begin.
func (r *Run) preflight() (string, error) {
	line, err := r.writes().Preflight()
	if errors.Is(err, capacity.ErrFull) {
		return "", fault.As(fault.Infrastructure, err)
	}
	return line, classify(err)
}

// room reports whether another attempt can be written.
func (r *Run) room() error {
	if err := r.writes().Room(); err != nil {
		return fmt.Errorf("%w: %w", commit.ErrOutput, err)
	}
	return nil
}
