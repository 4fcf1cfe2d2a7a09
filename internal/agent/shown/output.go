// Package shown shows people what agents print while a run is under way, within
// bounds, and keeps more of it in agent-trace.log.
package shown

import (
	"errors"
	"fmt"
	"io"

	"securebench/internal/agent/events"
	"securebench/internal/progress"
	"securebench/internal/redact"
)

// Output is what the agents of a run print.
type Output struct {
	secrets *redact.Registry
	format  events.Format
	report  progress.Reporter
	file    io.Closer // nil once it is closed
	trace   *progress.Trace
	budget  budget
}

// New shows output of a format to a reporter and writes it to a file, without the
// secrets.
func New(file io.WriteCloser, format events.Format, secrets *redact.Registry, to progress.Reporter) *Output {
	return &Output{secrets: secrets, format: format, report: to, file: file, trace: progress.NewTrace(file, 0), budget: budget{used: map[string]int{}}}
}

// Of returns what opens the streams of an attempt.
func (o *Output) Of(taskID string, attempt int) func(stream string) io.WriteCloser {
	clean := o.secrets.Group()
	return func(stream string) io.WriteCloser {
		seen := o.budget.lines(taskID, func(line string) {
			o.report.Event(progress.AgentOutput{TaskID: taskID, Attempt: attempt, Stream: stream, Line: line})
		})
		traced := o.trace.Writer(taskID, stream)
		if o.format == events.Plain {
			w := clean.Writer(io.MultiWriter(seen, traced))
			return &chain{w, []io.Closer{w, seen, traced}}
		}
		read := readable(o.format, stream, seen, traced)
		w := clean.Writer(read)
		return &chain{w, []io.Closer{w, read, seen, traced}}
	}
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

// Close completes the file. It is idempotent; a nil output has none.
func (o *Output) Close() error {
	if o == nil || o.file == nil {
		return nil
	}
	err := errors.Join(o.trace.Err(), o.file.Close())
	o.file = nil
	return err
}

// chain closes a chain of writers from its head to its tail.
type chain struct {
	*redact.Writer
	parts []io.Closer
}

// Close flushes the chain.
func (c *chain) Close() error {
	var errs []error
	for _, part := range c.parts {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}
