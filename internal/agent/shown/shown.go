package shown

import (
	"fmt"
	"sync"

	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
)

// The bounds on the agents' output that is shown, in bytes.
const (
	MaxLine      = 4096     // the length at which an overlong line is broken
	MaxTask      = 64 << 10 // per task, for all its attempts and streams together
	lineOverhead = 128      // what a line counts in addition to its text
)

// budget counts what was shown of each task. It is safe for concurrent use.
type budget struct {
	mu   sync.Mutex
	used map[string]int
}

// take reports whether a task may show n more bytes.
func (b *budget) take(task string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used[task] > MaxTask {
		return false
	}
	b.used[task] += n
	return b.used[task] <= MaxTask
}

// lines shows lines until their task's budget is used up, and at the
// end how many bytes were left out.
type lines struct {
	*progress.Lines
	budget   *budget
	task     string
	show     func(line string)
	leftOut  int // bytes
	overflow bool
}

// lines returns a writer that shows the lines of a task.
func (b *budget) lines(task string, show func(line string)) *lines {
	l := &lines{budget: b, task: task, show: show}
	l.Lines = progress.NewLines(MaxLine, l.line)
	return l
}

func (l *lines) line(text string) {
	if !l.overflow && l.budget.take(l.task, len(redact.Escape(text))+lineOverhead) {
		l.show(text)
		return
	}
	l.overflow = true
	l.leftOut += len(text) + 1
}

// Close shows an unfinished last line, and what was left out.
func (l *lines) Close() error {
	err := l.Lines.Close()
	if l.overflow {
		l.show(fmt.Sprintf("[%d bytes are not shown: the limit is %d per task; all of them are in %s/]", l.leftOut, MaxTask, record.RestrictedName))
	}
	return err
}
