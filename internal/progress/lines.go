package progress

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"securebench/internal/redact"
)

// The caps on text from outside, in characters.
const (
	maxName    = 256
	maxMessage = 1000
)

// The colours of the reference.
const (
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// line is one line of plain output. The first len(head) bytes are in our own
// words and may have a colour; with an empty head the colour is the line's.
type line struct {
	head, text, color string
}

// lines returns what an event looks like, without controls or newlines.
func lines(e Event, opts Options, live bool) []line {
	id := name(get[string](e, "task_id"))
	switch e.Name {
	case NameTaskStart:
		if live {
			return nil // the status line counts
		}
		return say("", "[%d/%d] %s", get[int](e, "index"), get[int](e, "total"), id+again(get[int](e, "attempt")))
	case NameResume:
		return say("", "resume completed=%d remaining=%d", get[int](e, "completed"), get[int](e, "remaining"))
	case NameTaskDone:
		return taskDone(e, id+again(get[int](e, "attempt")))
	case NameRunDone:
		return runDone(e)
	case NameSandboxResult:
		return commandOutput(e, opts)
	case NameAgentOutput:
		if !opts.ShowAgentOutput {
			return nil
		}
		return []line{{text: fmt.Sprintf("agent: %s | %s", id, message(get[string](e, "line"))), color: dim}}
	}
	return notice(e, id)
}

// notice returns the lines of what should not have happened.
func notice(e Event, id string) []line {
	text := get[string](e, "message")
	switch e.Name {
	case NameVerifierPolicyDenied:
		return say(yellow, "DENIED %s %s: %s", id, name(get[string](e, "denied_command")), message(get[string](e, "reason")))
	case NameWarning:
		return say(yellow, "warning: %s", message(text))
	case NameRetry:
		return say(yellow, "RETRY %s %d/%d: %s", id, get[int](e, "retry"), get[int](e, "limit"), message(text))
	case NameInfrastructure:
		return say(yellow, "INFRASTRUCTURE %s: %s", id, message(text))
	}
	return nil
}

// say makes one line of the framework's.
func say(color, format string, args ...any) []line {
	text := "securebench: " + fmt.Sprintf(format, args...)
	n := len("securebench: ")
	if color == "" {
		return []line{{text: text}}
	}
	if i := strings.IndexByte(text[n:], ' '); i >= 0 {
		n += i
	}
	return []line{{head: text[:n], text: text[n:], color: color}}
}

func taskDone(e Event, id string) []line {
	word, color := strings.ToUpper(name(get[string](e, "status"))), yellow
	switch word {
	case "PASSED":
		word, color = "PASS", green
	case "FAILED":
		word, color = "FAIL", red
	}
	if score := get[any](e, "score"); score != nil {
		return say(color, "%s %s score=%v", word, id, score)
	}
	return say(color, "%s %s", word, id)
}

// commandOutput shows what a command printed, if anything and if asked to.
func commandOutput(e Event, opts Options) []line {
	if !opts.ShowCommandOutput {
		return nil
	}
	var out []line
	for _, stream := range []string{"stdout", "stderr"} {
		if text := message(get[string](e, stream)); text != "" {
			out = append(out, line{text: stream + ": " + text, color: dim})
		}
	}
	return out
}

// runDone lists the failures; the counts are in the summary that the command
// prints.
func runDone(e Event) []line {
	failures := get[[]Failure](e, "failures")
	if len(failures) == 0 {
		return nil
	}
	out := say("", "not passed:")
	for _, f := range failures {
		text := fmt.Sprintf("  %s%s %s %s", name(f.TaskID), again(f.Attempt), name(string(f.Outcome)), name(string(f.Reason)))
		out = append(out, line{text: strings.TrimRight(text, " ")})
	}
	if n := get[int](e, "failures_left_out"); n > 0 {
		out = append(out, line{text: fmt.Sprintf("  and %d more", n)})
	}
	return out
}

// again marks every attempt of a task but the first.
func again(attempt int) string {
	if attempt < 2 {
		return ""
	}
	return fmt.Sprintf("#%d", attempt)
}

// name makes a name from outside one word; nothing stays nothing.
func name(s string) string {
	if s == "" {
		return ""
	}
	return redact.QuoteShort(s, maxName)
}

// message makes a long text from outside showable: one line, spaces collapsed.
func message(s string) string {
	// A megabyte of output need not be split into words to show 1000 of it.
	s = s[:min(len(s), 64<<10)]
	return clip(redact.Escape(strings.Join(strings.Fields(s), " ")), maxMessage)
}

// clip cuts s to limit characters, of which the last three then are dots.
func clip(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n == limit-3 {
			return s[:i] + "..."
		}
		n++
	}
	return s
}

// render returns the line with its newline, wrapped to width columns when
// width is not 0. Rows after the first are indented: a terminal that wrapped
// by itself would let the text choose what stands at the start of a row.
func (l line) render(width int, color bool) string {
	const indent = "    "
	rows := []string{l.head + l.text}
	if width > 2*len(indent) {
		rows = wrap(l.head+l.text, width, len(indent))
	}
	var b strings.Builder
	for i, row := range rows {
		if i > 0 {
			b.WriteString(indent)
		}
		switch {
		case !color || l.color == "":
			b.WriteString(row)
		case l.head == "":
			b.WriteString(paint(row, l.color))
		case i == 0 && len(l.head) <= len(row):
			b.WriteString(paint(l.head, l.color) + row[len(l.head):])
		default:
			b.WriteString(row)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func paint(s, color string) string { return "\x1b[" + color + "m" + s + "\x1b[0m" }

// wrap splits s into rows of at most width columns, all but the first shorter
// by indent. Every character outside ASCII counts as two columns: what a
// terminal really uses is not known, and never more than that.
func wrap(s string, width, indent int) []string {
	var rows []string
	start, used := 0, 0
	for i, r := range s {
		w := 1
		if r >= utf8.RuneSelf {
			w = 2
		}
		if used+w > width {
			rows = append(rows, s[start:i])
			start, used = i, indent
		}
		used += w
	}
	return append(rows, s[start:])
}
