package run

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"securebench/internal/harness/events"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
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
	format := r.needs().Output
	budget := &outputBudget{used: map[string]int{}}
	one := func(taskID string, attempt int, stream string, clean *redact.Group) io.WriteCloser {
		shown := newBoundedLines(budget, taskID, func(line string) { r.reportAgent(taskID, attempt, stream, line) })
		traced := r.trace.Writer(taskID, stream)
		if format == events.Plain {
			w := clean.Writer(io.MultiWriter(shown, traced))
			return &observer{w, []io.Closer{w, shown, traced}}
		}
		read := readable(format, stream, shown, traced)
		w := clean.Writer(read)
		return &observer{w, []io.Closer{w, read, shown, traced}}
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

// The bounds on the agents' output that is shown, in bytes.
const (
	MaxShownLine = 4096     // the length at which an overlong line is broken
	MaxShownTask = 64 << 10 // per task, for all its attempts and streams together
	lineOverhead = 128      // what a line counts in addition to its text
)

// outputBudget counts what was shown of each task.
type outputBudget struct {
	mu   sync.Mutex
	used map[string]int
}

// take reports whether a task may show n more bytes.
func (b *outputBudget) take(task string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used[task] > MaxShownTask {
		return false
	}
	b.used[task] += n
	return b.used[task] <= MaxShownTask
}

// boundedLines shows lines until their task's budget is used up, and at the
// end how many bytes were left out.
type boundedLines struct {
	*progress.Lines
	budget   *outputBudget
	task     string
	show     func(line string)
	leftOut  int // bytes
	overflow bool
}

func newBoundedLines(budget *outputBudget, task string, show func(line string)) *boundedLines {
	l := &boundedLines{budget: budget, task: task, show: show}
	l.Lines = progress.NewLines(MaxShownLine, l.line)
	return l
}

func (l *boundedLines) line(text string) {
	if !l.overflow && l.budget.take(l.task, len(redact.Escape(text))+lineOverhead) {
		l.show(text)
		return
	}
	l.overflow = true
	l.leftOut += len(text) + 1
}

// Close shows an unfinished last line, and what was left out.
func (l *boundedLines) Close() error {
	err := l.Lines.Close()
	if l.overflow {
		l.show(fmt.Sprintf("[%d bytes are not shown: the limit is %d per task; all of them are in %s/]", l.leftOut, MaxShownTask, record.RestrictedName))
	}
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
