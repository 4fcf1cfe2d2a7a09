package bench

import (
	"fmt"
	"io"
	"strings"

	"securebench/internal/console"
)

// Table writes the result for people.
func (r *Result) Table(w io.Writer) error {
	t := console.NewTable(w)
	m := r.Machine
	fmt.Fprintf(t, "%s, %d cores, %s, kernel %s, load %.2f before\n", m.CPU, m.Cores, m.OS, m.Kernel, m.LoadBefore[0])
	for _, e := range r.Engines {
		e.table(t)
	}
	fmt.Fprintln(t, "\nwithout an engine\trows\trows/s")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%s\t%d\t%.0f\n", x.Name, x.Rows, x.PerSecond)
	}
	if r.Quick {
		fmt.Fprintln(t, "\nThese are few samples: leave out --quick to measure.")
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

func (e *Engine) table(w io.Writer) {
	if e.Missing != "" {
		fmt.Fprintf(w, "\n%s\tnot measured: %s\n", e.Name, e.Missing)
		return
	}
	fmt.Fprintf(w, "\n%s %s (%s)\tp50 ms\tp99 ms\tsamples\n", e.Name, e.Info.Version, e.Info.Runtime)
	if c := e.Cycle; c != nil {
		fmt.Fprintf(w, "whole sandbox\t%.1f\t%.1f\t%d\n", c.Box.P50, c.Box.P99, c.Box.Samples)
		if c.Bare != "" {
			fmt.Fprintf(w, "  %s\t%.1f\t%.1f\t%d\n", c.Bare, c.Floor.P50, c.Floor.P99, c.Floor.Samples)
			fmt.Fprintf(w, "  ratio\t%.2f\t%.2f\n", c.RatioP50, c.RatioP99)
		}
	}
	for _, s := range e.Steps {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%d\n", s.Name, s.P50, s.P99, s.Samples)
	}
	fmt.Fprintln(w, "workers\ttasks/s\ts/task\tbare tasks/s")
	for _, x := range e.Tasks {
		fmt.Fprintf(w, "%d\t%.2f\t%.3f\t%s\n", x.Workers, x.PerSecond, x.Seconds/float64(x.Tasks), optional("%.2f", x.FloorRate))
	}
	fmt.Fprintln(w, "queued, running\tparent MiB\tat most MiB")
	for _, x := range e.Memory {
		fmt.Fprintf(w, "%d, %d\t%.1f\t%.1f\n", x.Queued, x.Running, mib(x.Resident), mib(x.Peak))
	}
}

// optional formats a number, and 0 as a dash.
func optional(format string, x float64) string {
	if x == 0 {
		return "–"
	}
	return strings.TrimSpace(fmt.Sprintf(format, x))
}

func mib(bytes int64) float64 { return round(float64(bytes)/(1<<20), 1) }
