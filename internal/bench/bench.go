package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/bare"
	"securebench/internal/sandbox/owner"
)

// Config says what is measured and with what.
type Config struct {
	Engines []string // by name
	Image   string   // a reference; it has python3
	Quick   bool
	Version string // of this build
	Program Program
	// Open opens an engine. Bare opens the bare runtime below it,
	// for an image that the engine has.
	Open func(ctx context.Context, engine string) (sandbox.Engine, error)
	Bare func(engine string, image sandbox.Image) (bare.Floor, error)
	// Progress gets a line for each part that begins.
	Progress func(string)
}

// plan is how much is measured.
type plan struct {
	cycles, steps budget
	tasks         int // where a sandbox is cheap
	slowTasks     int // where it is not
	rounds        int // where a sandbox is cheap; it is one where it is not
	queued        []int
	running       int
	rows          int
}

func (c *Config) plan() plan {
	if c.Quick {
		return plan{cycles: budget{5, 120, 3 * time.Second}, steps: budget{3, 10, 3 * time.Second},
			tasks: 110, slowTasks: 8, rounds: 1, queued: []int{10, 100}, running: 4, rows: 1000}
	}
	return plan{cycles: budget{60, 500, 45 * time.Second}, steps: budget{30, 200, 30 * time.Second},
		tasks: 110, slowTasks: 110, rounds: 5, queued: []int{10, 100, 1000}, running: 64, rows: 20000}
}

// cheap is the longest that a sandbox may take for a quick measurement to make
// hundreds.
const cheap = 50 // milliseconds

// tasksFor is how many tasks a run has on an engine: as many as the public part of
// HumanEval, since a run of a few measures its own start more than tasks. A quick
// measurement has no time for that where sandboxes are not cheap. Where they are, a
// run takes seconds, so several are made.
func (p plan) tasksFor(c *Cycle) (tasks, rounds int) {
	if c.Box.P50 > cheap {
		return p.slowTasks, 1
	}
	return p.tasks, p.rounds
}

// Run measures everything. An engine that is missing is a part of the result;
// at least one must be there.
func Run(ctx context.Context, c Config) (_ *Result, err error) {
	dir, err := owner.MakeFolder("bench")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the benchmark: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	start := time.Now()
	r := &Result{Schema: Schema, Version: c.Version, Quick: c.Quick, Started: start.UTC().Truncate(time.Second), Machine: describe()}
	p := c.plan()
	if err := codePack(filepath.Join(dir, "pack"), c.Image, max(p.tasks, p.queued[len(p.queued)-1])); err != nil {
		return nil, err
	}
	found := false
	for _, name := range c.Engines {
		e, err := c.engine(ctx, dir, name, p)
		if err != nil {
			return nil, fmt.Errorf("measuring the engine %s: %w", name, err)
		}
		found = found || e.Missing == ""
		r.Engines = append(r.Engines, e)
	}
	if !found {
		return nil, fmt.Errorf("no engine can be measured: %s", r.Engines[0].Missing)
	}
	c.Progress(fmt.Sprintf("rows: loading, scoring and verifying %d", p.rows))
	if r.Rows, err = rows(ctx, c.Program, dir, p.rows); err != nil {
		return nil, err
	}
	r.Machine.LoadAfter, r.Seconds = load(), round(time.Since(start).Seconds(), 1)
	return r, nil
}

// engine measures one engine.
func (c *Config) engine(ctx context.Context, dir, name string, p plan) (out Engine, err error) {
	out.Name = name
	e, err := c.Open(ctx, name)
	if ctx.Err() != nil {
		return out, errors.Join(context.Cause(ctx), closed(e))
	}
	if err != nil {
		out.Missing = redact.Escape(err.Error())
		c.Progress(name + ": not measured: " + out.Missing)
		return out, nil
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	info := e.Info()
	out.Info = &info
	img, err := e.Image(ctx, c.Image)
	if err != nil {
		return out, fmt.Errorf("looking up image %s: %w", c.Image, err)
	}
	out.Image, out.ImageID = img.Ref, img.ID
	floor, err := c.Bare(name, img)
	if err != nil {
		c.Progress(name + ": without the bare runtime: " + err.Error())
		floor = nil
	}
	if floor != nil {
		defer func() { err = errors.Join(err, floor.Close()) }()
	}
	c.Progress(name + ": whole sandboxes")
	if out.Cycle, err = cycle(ctx, e, img, floor, p.cycles); err != nil {
		return out, err
	}
	c.Progress(name + ": the parts of a sandbox's life")
	if out.Steps, err = steps(ctx, e, img, p.steps); err != nil {
		return out, err
	}
	return out, c.runs(ctx, dir, &out, floor, p)
}

// runs measures runs of the program on one engine.
func (c *Config) runs(ctx context.Context, dir string, out *Engine, floor bare.Floor, p plan) error {
	workers := []int{1}
	if n := runtime.NumCPU(); n > 1 {
		workers = append(workers, n)
	}
	tasks, rounds := p.tasksFor(out.Cycle)
	for _, n := range workers {
		c.Progress(fmt.Sprintf("%s: %d tasks with %d at a time", out.Name, tasks, n))
		t, err := throughput(ctx, c.Program, dir, out.Name, floor, Tasks{Workers: n, Tasks: tasks, Rounds: rounds})
		if err != nil {
			return err
		}
		out.Tasks = append(out.Tasks, t)
	}
	type load struct{ queued, running int }
	var loads []load
	for _, n := range p.queued {
		loads = append(loads, load{n, 1})
	}
	for _, l := range append(loads, load{p.running, p.running}) {
		c.Progress(fmt.Sprintf("%s: memory with %d queued and %d running", out.Name, l.queued, l.running))
		m, err := memory(ctx, c.Program, dir, out.Name, l.queued, l.running)
		if err != nil {
			return err
		}
		out.Memory = append(out.Memory, m)
	}
	return nil
}

func closed(e sandbox.Engine) error {
	if e == nil {
		return nil
	}
	return e.Close()
}
