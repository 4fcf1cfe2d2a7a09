package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"securebench/internal/harness"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
)

// openProgress makes the renderer that --progress asks for.
func (r *runner) openProgress() {
	mode := progress.Mode(r.flags.progress)
	if r.flags.quiet {
		mode = progress.None
	}
	opts := progress.Options{ShowCommandOutput: r.flags.showCommands, ShowAgentOutput: r.flags.showAgent}
	if f, ok := r.app.stderr.file(); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		opts.TTY = true
		opts.Color = os.Getenv("NO_COLOR") == ""
		opts.Width = func() int {
			w, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 0
			}
			return w
		}
	}
	r.report = progress.New(mode, r.app.stderr, opts)
}

// secrets registers the values that may not stand in anything that the run
// writes: those of forwarded variables whose names look secret.
func (r *runner) secrets() {
	if r.harn == nil || r.flags.agent != "" {
		return
	}
	for _, w := range harness.Warnings(r.harn) {
		r.warn("%s", w)
	}
	for _, name := range r.tester.Harness.Env {
		value, ok := os.LookupEnv(name)
		if !ok || !harness.LooksSecret(name) {
			continue
		}
		if err := r.redact.Add(name, []byte(value)); err != nil {
			r.warn("%v", err)
		}
	}
}

// warn tells the operator something that stops nothing.
func (r *runner) warn(format string, args ...any) {
	r.report.Event(progress.Warning{Message: fmt.Sprintf(format, args...)})
}

// observe mirrors agents' output to progress and agent-trace.log where
// --show-agent-output asks for it.
func (x *execution) observe() (func(taskID string) func(stream string) io.WriteCloser, error) {
	if !x.flags.showAgent {
		return nil, nil
	}
	file, err := x.dir.Trace()
	if err != nil {
		return nil, err
	}
	x.traceFile, x.trace = file, progress.NewTrace(file, 0)
	budget := &shownBudget{used: map[string]int{}}
	one := func(taskID, stream string, clean *redact.Group) io.WriteCloser {
		show := func(line string) { x.report.Event(progress.AgentOutput{TaskID: taskID, Stream: stream, Line: line}) }
		shown := &boundedLines{budget: budget, task: taskID, show: show}
		shown.Lines = progress.NewLines(maxShownLine, shown.line)
		traced := x.trace.Writer(taskID, stream)
		w := clean.Writer(io.MultiWriter(shown, traced))
		return &observer{w, []io.Closer{w, shown, traced}}
	}
	return func(taskID string) func(string) io.WriteCloser {
		clean := x.redact.Group()
		return func(stream string) io.WriteCloser { return one(taskID, stream, clean) }
	}, nil
}

// The bounds on what is shown of agents' output, in bytes.
const (
	maxShownLine = 4096     // where a line without end is broken
	maxShownTask = 64 << 10 // of a task, all its attempts and streams together
	shownFrame   = 128      // that a line costs besides: what stands around it
)

// shownBudget counts what was shown of each task.
type shownBudget struct {
	mu   sync.Mutex
	used map[string]int
}

// take reports whether a task may show n more bytes.
func (b *shownBudget) take(task string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used[task] > maxShownTask {
		return false
	}
	b.used[task] += n
	return b.used[task] <= maxShownTask
}

// boundedLines shows lines as long as their task has not shown too much, and
// says at the end how much it did not.
type boundedLines struct {
	*progress.Lines
	budget   *shownBudget
	task     string
	show     func(line string)
	leftOut  int // bytes
	overflow bool
}

func (l *boundedLines) line(text string) {
	if !l.overflow && l.budget.take(l.task, len(redact.Escape(text))+shownFrame) {
		l.show(text)
		return
	}
	l.overflow = true
	l.leftOut += len(text) + 1
}

// Close shows the last line, if it has no end, and what was left out.
func (l *boundedLines) Close() error {
	err := l.Lines.Close()
	if l.overflow {
		l.show(fmt.Sprintf("[%d bytes are not shown: a task may show %d; all of them are in %s/]", l.leftOut, maxShownTask, record.RestrictedName))
	}
	return err
}

// observer closes a chain of writers from its head to its tail.
type observer struct {
	*redact.Writer
	chain []io.Closer
}

// Close flushes what the chain still holds.
func (o *observer) Close() error {
	var errs []error
	for _, c := range o.chain {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
