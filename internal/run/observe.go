package run

import (
	"errors"
	"fmt"
	"io"

	"securebench/internal/harness/events"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/run/shown"
)

// observe copies the agents' output to progress and agent-trace.log, if
// requested.
func (r *Run) observe() (func(taskID string, attempt int) func(stream string) io.WriteCloser, error) {
	if !r.ShowAgent {
		return nil, nil
	}
	file, err := r.dir.Trace()
	if err != nil {
		return nil, err
	}
	r.traceFile, r.trace = file, progress.NewTrace(file, 0)
	format := r.agent.Facts().Output
	budget := shown.NewBudget()
	one := func(taskID string, attempt int, stream string, clean *redact.Group) io.WriteCloser {
		seen := budget.Lines(taskID, func(line string) { r.reportAgent(taskID, attempt, stream, line) })
		traced := r.trace.Writer(taskID, stream)
		if format == events.Plain {
			w := clean.Writer(io.MultiWriter(seen, traced))
			return &observer{w, []io.Closer{w, seen, traced}}
		}
		read := readable(format, stream, seen, traced)
		w := clean.Writer(read)
		return &observer{w, []io.Closer{w, read, seen, traced}}
	}
	return func(taskID string, attempt int) func(string) io.WriteCloser {
		clean := r.secrets.Group()
		return func(stream string) io.WriteCloser { return one(taskID, attempt, stream, clean) }
	}, nil
}

// readable returns a reader of the structured output of an agent's program that
// writes lines for people. Neither writer ever fails.
func readable(format events.Format, stream string, shown, traced io.Writer) *events.Reader {
	open := events.NewReader
	if stream == "stderr" {
		open = events.Stderr
	}
	return open(format, func(l events.Line) {
		if !l.TraceOnly {
			_, _ = fmt.Fprintln(shown, l.Text)
		}
		_, _ = fmt.Fprintln(traced, l.Text)
	})
}

// closeTrace completes agent-trace.log, if there is one.
func (r *Run) closeTrace() error {
	if r.trace == nil {
		return nil
	}
	err := errors.Join(r.trace.Err(), r.traceFile.Close())
	r.trace = nil
	return err
}

// observer closes a chain of writers from its head to its tail.
type observer struct {
	*redact.Writer
	chain []io.Closer
}

// Close flushes the chain.
func (o *observer) Close() error {
	var errs []error
	for _, c := range o.chain {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
