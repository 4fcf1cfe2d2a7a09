package progress

import (
	"errors"
	"fmt"
	"io"

	"securebench/internal/agent/events"
	"securebench/internal/redact"
)

// Shown is what the agents of a run print.
type Shown struct {
	secrets *redact.Registry
	format  *events.Format
	report  Reporter
	file    io.Closer // nil once it is closed
	trace   *Trace
	budget  shownBudget
}

// NewShown shows output of a format to a reporter and writes it to a file, without the
// secrets.
func NewShown(file io.WriteCloser, format *events.Format, secrets *redact.Registry, to Reporter) *Shown {
	return &Shown{secrets: secrets, format: format, report: to, file: file, trace: NewTrace(file, 0), budget: shownBudget{used: map[string]int{}}}
}

// Of returns what opens the streams of an attempt.
func (o *Shown) Of(taskID string, attempt int) func(stream string) io.WriteCloser {
	clean := o.secrets.Group()
	return func(stream string) io.WriteCloser {
		seen := o.budget.lines(taskID, func(line string) {
			o.report.Event(AgentOutput{TaskID: taskID, Attempt: attempt, Stream: stream, Line: line})
		})
		traced := o.trace.Writer(taskID, stream)
		if o.format == nil {
			w := clean.Writer(io.MultiWriter(seen, traced))
			return &writerChain{w, []io.Closer{w, seen, traced}}
		}
		read := readableOutput(o.format, stream, seen, traced)
		w := clean.Writer(read)
		return &writerChain{w, []io.Closer{w, read, seen, traced}}
	}
}

// readableOutput returns a reader of the structured output of an agent's program that
// writes lines for people. Neither writer ever fails.
func readableOutput(format *events.Format, stream string, shown, traced io.Writer) *events.Reader {
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
func (o *Shown) Close() error {
	if o == nil || o.file == nil {
		return nil
	}
	err := errors.Join(o.trace.Err(), o.file.Close())
	o.file = nil
	return err
}

// writerChain closes a chain of writers from its head to its tail.
type writerChain struct {
	*redact.Writer
	parts []io.Closer
}

// Close flushes the chain.
func (c *writerChain) Close() error {
	var errs []error
	for _, part := range c.parts {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}
