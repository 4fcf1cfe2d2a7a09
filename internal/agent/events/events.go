// Package events reads the structured output of agent programs: lines of JSON,
// each an event. What it reads was written in the agent's sandbox, where any
// process can write to the agent's output: it is shown, its steps are counted,
// and the last message is a candidate, but nothing else depends on it.
package events

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"securebench/internal/redact"
)

// Format is a program's kind of output: that of a reader of this package, or what its
// rules say. nil is plain output, of which every line is shown as it is.
type Format struct {
	Name   string // of the program in lines
	Reader string // "" reads by the rules
	Rules  []Rule
}

// The readers of this package.
const (
	codexReader  = "codex"       // codex exec --json
	claudeReader = "claude_code" // claude -p --output-format stream-json --verbose
)

// Check returns an error for a format that cannot be read.
func (f *Format) Check() error {
	if f.Reader != "" {
		if f.Reader != codexReader && f.Reader != claudeReader {
			return fmt.Errorf("reader: want %s or %s", codexReader, claudeReader)
		}
		return nil
	}
	for i, r := range f.Rules {
		if err := r.check(); err != nil {
			return fmt.Errorf("events[%d]: %w", i, err)
		}
	}
	return nil
}

// MaxLine is the longest event in bytes. Longer ones are left out.
const MaxLine = 4 << 20

// The lengths of what is shown of a command, in characters.
const (
	maxStarted  = 300
	maxFinished = 220
)

// Line is a readable line about an event.
type Line struct {
	Text string // escaped
	// TraceOnly lines are for agent-trace.log: a person who watches has seen as
	// much already.
	TraceOnly bool
}

// Summary is what the events of one attempt say.
type Summary struct {
	// Message is the agent's last message to its user. An agent that was cut
	// short may have none, and a message that the program made up to report an
	// error is none.
	Message string
	// Steps counts the agent's messages and tool calls, with those of sub-agents as
	// far as the program reports them. What the agent used, the relay counts.
	Steps int64
}

// Reader reads the events of one stream as they are written to it. It is not safe
// for concurrent use.
type Reader struct {
	name   string // of the program in lines
	event  func(r *Reader, line []byte) bool
	show   func(Line)
	buf    []byte
	tooBig bool             // the line so far is dropped
	parts  *strings.Builder // of a message that has not ended; nil for none
	sum    Summary
}

// NewReader returns a reader that calls show, unless it is nil, with what can be
// shown of each event.
func NewReader(f *Format, show func(Line)) *Reader {
	r := &Reader{show: show}
	if f == nil {
		return r
	}
	r.name = f.Name
	switch f.Reader {
	case codexReader:
		r.event = codexEvent
	case claudeReader:
		r.event = claudeEvent
	default:
		r.event = ruleEvent(f.Rules)
	}
	return r
}

// Read reads a whole output.
func Read(f *Format, output []byte) Summary {
	r := NewReader(f, nil)
	_, _ = r.Write(output) // it never fails
	_ = r.Close()
	return r.Summary()
}

// Write reads the lines that p completes. It never fails.
func (r *Reader) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		piece, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		if len(r.buf)+len(piece) > MaxLine {
			r.tooBig, r.buf = true, nil
		}
		if !r.tooBig {
			r.buf = append(r.buf, piece...)
		}
		if whole {
			r.line()
		}
	}
	return n, nil
}

// Close reads a last line without an end. It never fails.
func (r *Reader) Close() error {
	if len(r.buf) > 0 || r.tooBig {
		r.line()
	}
	r.endPart()
	return nil
}

// Summary returns what was read so far.
func (r *Reader) Summary() Summary { return r.sum }

// line reads the line in the buffer.
func (r *Reader) line() {
	line, tooBig := bytes.TrimSuffix(r.buf, []byte("\r")), r.tooBig
	r.buf, r.tooBig = r.buf[:0], false
	if cap(r.buf) > 64<<10 {
		r.buf = nil // attempts that wait hold no large buffers
	}
	switch {
	case tooBig:
		r.say("", "[an event of more than 4 MiB is left out]")
	case len(bytes.TrimSpace(line)) == 0:
	case r.event == nil, !r.event(r, line):
		r.say("", string(line))
	}
}

// readAs decodes an event strictly: a repeated member or a byte that is not UTF-8
// makes it no event, and the result is zero. Members that are not known are
// skipped, because programs add some with every version.
func readAs[T any](line []byte) (out T, ok bool) {
	if err := json.Unmarshal(line, &out); err != nil {
		return *new(T), false
	}
	return out, true
}

// take decodes an event, and gives it to do if it is one.
func take[T any](line []byte, do func(T)) bool {
	e, ok := readAs[T](line)
	if ok {
		do(e)
	}
	return ok
}

// eventType returns an event's type, "" if the line is no event. The type decides
// how the other members are read: programs use one name for several kinds.
func eventType(line []byte) string {
	e, _ := readAs[struct {
		Type string `json:"type"`
	}](line)
	return e.Type
}

// say shows a text, each of its lines on its own.
func (r *Reader) say(what, text string) {
	if r.show == nil {
		return
	}
	for part := range strings.Lines(strings.TrimRight(text, "\r\n")) {
		r.emit(what, strings.TrimRight(part, "\r\n"), false)
	}
}

// emit shows one line.
func (r *Reader) emit(what, text string, traceOnly bool) {
	if r.show == nil {
		return
	}
	head := r.name
	if what != "" {
		head += " " + what
	}
	if head != "" {
		head += ": "
	}
	r.show(Line{Text: redact.Escape(head + text), TraceOnly: traceOnly})
}

// short is one line of a text, cut to a number of characters.
func short(text string, limit int) string {
	text = strings.Join(strings.Fields(text[:min(len(text), 8*limit)]), " ")
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-3]) + "..."
}

// message takes a message of the agent.
func (r *Reader) message(text string) {
	r.sum.Steps++
	r.sum.Message = text
	r.say("", text)
}

// call counts a tool call and shows what it does.
func (r *Reader) call(what, text string) {
	r.sum.Steps++
	r.emit(what, short(text, maxStarted), false)
}

// Stderr returns a reader for the other stream of a program, whose lines are
// text.
func Stderr(f *Format, show func(Line)) *Reader {
	r := NewReader(f, show)
	r.event = nil
	if r.name != "" {
		r.name += " stderr"
	}
	return r
}
