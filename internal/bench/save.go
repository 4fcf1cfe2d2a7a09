package bench

import (
	"bytes"
	"errors"
	"fmt"

	"securebench/internal/durable"
)

// File is the name of the result in the folder that [Result.Save] writes.
const File = "bench.json"

// Save writes the result and its plots into a folder, which is made if there is
// none. Files of an earlier result are replaced.
func (r *Result) Save(dir string) (err error) {
	root, err := durable.OpenFolder(dir, 0o755)
	if err != nil {
		return fmt.Errorf("opening the folder for the result: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		return err
	}
	if err := durable.WriteFile(root, File, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	for name, c := range r.charts() {
		var picture bytes.Buffer
		if err := c.draw(&picture); err != nil {
			return err
		}
		if err := durable.WriteFile(root, name, picture.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing a plot: %w", err)
		}
	}
	return nil
}

// charts returns the plots by file name. One without bars is left out.
func (r *Result) charts() map[string]chart {
	m := r.Machine
	note := fmt.Sprintf("%s, %d cores, kernel %s, %s", m.CPU, m.Cores, m.Kernel, r.Started.Format("2006-01-02"))
	all := map[string]chart{
		"sandbox.svg":    {Title: "A whole sandbox beside the bare runtime", Unit: "ms, p50 … p99", Log: true},
		"steps.svg":      {Title: "The parts of a sandbox's life", Unit: "ms, p50 … p99", Log: true},
		"throughput.svg": {Title: "Tasks like those of HumanEval", Unit: "tasks per second"},
		"memory.svg":     {Title: "Memory of the parent", Unit: "MiB at most"},
	}
	add := func(name string, bars ...bar) {
		c := all[name]
		c.Bars = append(c.Bars, bars...)
		all[name] = c
	}
	for _, e := range r.Engines {
		if e.Cycle != nil {
			add("sandbox.svg", bar{e.Name, "securebench", e.Cycle.Box.P50, e.Cycle.Box.P99})
			if e.Cycle.Bare != "" {
				add("sandbox.svg", bar{e.Name, e.Cycle.Bare, e.Cycle.Floor.P50, e.Cycle.Floor.P99})
			}
		}
		for _, s := range e.Steps {
			add("steps.svg", bar{s.Name, e.Name, s.P50, s.P99})
		}
		for _, t := range e.Tasks {
			label := fmt.Sprintf("%s, %d at a time", e.Name, t.Workers)
			add("throughput.svg", bar{label, "securebench", t.PerSecond, 0})
			if t.FloorRate > 0 {
				add("throughput.svg", bar{label, "bare sandboxes and processes", t.FloorRate, 0})
			}
		}
		for _, x := range e.Memory {
			add("memory.svg", bar{fmt.Sprintf("%d queued, %d running", x.Queued, x.Running), e.Name, mib(x.Peak), 0})
		}
	}
	for name, c := range all {
		c.Note, c.Bars = note, byLabel(c.Bars)
		if all[name] = c; len(c.Bars) == 0 {
			delete(all, name)
		}
	}
	return all
}
