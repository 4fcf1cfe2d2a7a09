package progress

import (
	"fmt"
	"sync"

	"securebench/internal/redact"
)

// The bounds on the agents' output that is shown, in bytes.
const (
	maxShownLine = 4096     // the length at which an overlong line is broken
	maxShown     = 64 << 10 // per task, for all its attempts and streams together
	lineOverhead = 128      // what a line counts in addition to its text
)

// shownBudget counts what was shown of each task. It is safe for concurrent use.
type shownBudget struct {
	mu   sync.Mutex
	used map[string]int
}

// take reports whether a task may show n more bytes.
func (b *shownBudget) take(task string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used[task] > maxShown {
		return false
	}
	b.used[task] += n
	return b.used[task] <= maxShown
}

// shownLines shows lines until their task's budget is used up, and at the
// end how many bytes were left out.
type shownLines struct {
	*Lines
	budget   *shownBudget
	task     string
	show     func(line string)
	leftOut  int // bytes
	overflow bool
}

// lines returns a writer that shows the lines of a task.
func (b *shownBudget) lines(task string, show func(line string)) *shownLines {
	l := &shownLines{budget: b, task: task, show: show}
	l.Lines = NewLines(maxShownLine, l.line)
	return l
}

func (l *shownLines) line(text string) {
	if !l.overflow && l.budget.take(l.task, len(redact.Escape(text))+lineOverhead) {
		l.show(text)
		return
	}
	l.overflow = true
	l.leftOut += len(text) + 1
}

// Close shows an unfinished last line, and what was left out.
func (l *shownLines) Close() error {
	err := l.Lines.Close()
	if l.overflow {
		l.show(fmt.Sprintf("[%d bytes are not shown: the limit is %d per task; all of them are in restricted/]", l.leftOut, maxShown))
	}
	return err
}
