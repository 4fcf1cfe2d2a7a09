package progress

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"securebench/internal/redact"
)

// defaultTraceLimit is how many bytes of agent-trace.log a task may use.
const defaultTraceLimit = 1 << 20

// maxTraceLine is where a longer line is broken.
const maxTraceLine = 16 << 10

// Trace writes agent-trace.log: "task_id | text" lines with the escaped output of
// agents. It is safe for concurrent use.
type Trace struct {
	mu    sync.Mutex
	w     io.Writer
	limit int64
	used  map[string]int64 // bytes by task
	err   error
}

// NewTrace returns a trace on w of at most limit bytes per task; 0 is
// [defaultTraceLimit]. A task that exceeds the limit gets one line that
// reports it.
func NewTrace(w io.Writer, limit int64) *Trace {
	if limit <= 0 {
		limit = defaultTraceLimit
	}
	return &Trace{w: w, limit: limit, used: map[string]int64{}}
}

// TracePrefix begins the lines of a task.
func TracePrefix(taskID string) string { return name(taskID) + " | " }

// Writer returns a writer for one stream of a task's agent, "stdout" or
// "stderr". Close writes the last line. Writes never fail, because a full disk is
// not the agent's fault: see [Trace.Err].
func (t *Trace) Writer(taskID, stream string) io.WriteCloser {
	prefix := TracePrefix(taskID)
	if stream == "stderr" {
		prefix += "stderr: "
	}
	return NewLines(maxTraceLine, func(text string) {
		t.line(taskID, prefix+redact.Escape(text)+"\n", prefix)
	})
}

// Err returns the first write error; nothing is written after it.
func (t *Trace) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *Trace) line(taskID, text, prefix string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	used := t.used[taskID]
	if used > t.limit || t.err != nil {
		return
	}
	if t.used[taskID] += int64(len(text)); t.used[taskID] > t.limit {
		t.used[taskID] = t.limit + 1
		text = fmt.Sprintf("%s[cut: the trace of a task has at most %d bytes]\n", prefix, t.limit)
	}
	_, t.err = io.WriteString(t.w, text)
}

// Lines splits a stream into lines. It is not safe for concurrent use.
type Lines struct {
	max  int
	emit func(string)
	buf  []byte
}

// NewLines returns a writer that calls emit with each line, without its line
// end. Lines are broken at limit bytes, which bounds the memory.
func NewLines(limit int, emit func(line string)) *Lines {
	return &Lines{max: max(limit, 1), emit: emit}
}

// Write never fails.
func (l *Lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		whole := end >= 0
		if !whole {
			end = len(p)
		}
		if room := l.max - len(l.buf); end > room {
			l.buf = append(l.buf, p[:room]...)
			p = p[room:]
			l.flush()
			continue
		}
		l.buf = append(l.buf, p[:end]...)
		p = p[end:]
		if whole {
			p = p[1:]
			l.flush()
		}
	}
	return n, nil
}

// Close emits the last line if it has no line end.
func (l *Lines) Close() error {
	if len(l.buf) > 0 {
		l.flush()
	}
	return nil
}

func (l *Lines) flush() {
	l.emit(string(bytes.TrimSuffix(l.buf, []byte("\r"))))
	l.buf = l.buf[:0]
}
