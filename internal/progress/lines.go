package progress

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// The caps on text from outside, in characters.
const (
	maxName    = 256
	maxMessage = 1000
)

// The colours of the reference.
const (
	plain  = ansi.AttrReset
	dim    = ansi.AttrFaint
	red    = ansi.AttrRedForegroundColor
	green  = ansi.AttrGreenForegroundColor
	yellow = ansi.AttrYellowForegroundColor
)

// line is one line of plain output. head is our own words and may be
// coloured; if it is empty, the colour applies to the whole line.
type line struct {
	head, text string
	color      ansi.Attr
}

// lines returns what an event looks like, without controls or newlines.
func lines(e Event, opts Options, live bool) []line {
	switch e := e.(type) {
	case RunStart:
		return runStart(e)
	case TaskStart:
		if live {
			return nil // the display shows it
		}
		return say(plain, "[%d/%d] %s", e.Index, e.Total, attemptName(e.TaskID, e.Attempt))
	case Schedule:
		return say(plain, "tasks: %s; %s", message(e.Tasks), message(e.Disk))
	case Resume:
		return say(plain, "resume completed=%d remaining=%d", e.Completed, e.Remaining)
	case WorkerJoined:
		if live {
			return nil
		}
		return say(plain, "worker %s has joined: %s", name(e.Worker), message(e.Roles))
	case ProviderPace:
		if !e.Overloaded || !e.Lowest {
			return nil
		}
		return say(yellow, "the provider %s has too much to do: requests at the same time are at most %d for now", name(e.Provider), e.Requests)
	case WorkerLeft:
		return workerLeft(e, live)
	case TaskDone:
		if live {
			return nil
		}
		return taskDone(e)
	case RunDone:
		return runDone(e)
	case Ending:
		return ending(e)
	case SandboxResult:
		return commandOutput(e, opts)
	case AgentOutput:
		if !opts.ShowAgentOutput {
			return nil
		}
		return []line{{text: fmt.Sprintf("agent: %s | %s", name(e.TaskID), message(e.Line)), color: dim}}
	case Warning:
		return say(yellow, "warning: %s", message(e.Message))
	case Retry:
		return say(yellow, "RETRY %s %d/%d: %s", name(e.TaskID), e.Retry, e.Limit, message(e.Message))
	case Infrastructure:
		return say(yellow, "INFRASTRUCTURE %s: %s", name(e.TaskID), message(e.Message))
	}
	return nil
}

// say makes one line in our own words.
func say(color ansi.Attr, format string, args ...any) []line {
	text := "securebench: " + fmt.Sprintf(format, args...)
	n := len("securebench: ")
	if color == plain {
		return []line{{text: text}}
	}
	if i := strings.IndexByte(text[n:], ' '); i >= 0 {
		n += i
	}
	return []line{{head: text[:n], text: text[n:], color: color}}
}

// runStart names the engine.
func runStart(e RunStart) []line {
	switch {
	case e.Engine == "":
		return nil
	case e.EngineChoice == "":
		return say(plain, "engine: %s", name(e.Engine))
	}
	return say(plain, "engine: %s (%s)", name(e.Engine), message(e.EngineChoice))
}

// workerLeft says that a worker has left. A display shows that it is gone, but not that
// it was lost.
func workerLeft(e WorkerLeft, live bool) []line {
	switch {
	case e.Lost:
		return say(yellow, "warning: the worker %s %s", name(e.Worker), message(e.Why))
	case live:
		return nil
	}
	return say(plain, "worker %s %s", name(e.Worker), message(e.Why))
}

func taskDone(e TaskDone) []line {
	word, color := strings.ToUpper(name(string(e.Status))), yellow
	switch e.Status {
	case verdict.StatusPassed:
		word, color = "PASS", green
	case verdict.StatusFailed:
		word, color = "FAIL", red
	}
	id, judged := attemptName(e.TaskID, e.Attempt), ""
	if e.Basis == verdict.Judged {
		judged = " " + e.Basis.String()
	}
	if e.Status == verdict.StatusPending || e.Word != "" {
		return say(color, "%s %s%s", cmp.Or(e.Word, word), id, judged)
	}
	return say(color, "%s %s score=%v%s", word, id, e.Score, judged)
}

// commandOutput shows what a command printed, if anything and if asked to.
func commandOutput(e SandboxResult, opts Options) []line {
	if !opts.ShowCommandOutput {
		return nil
	}
	var out []line
	if text := message(e.Stdout); text != "" {
		out = append(out, line{text: "stdout: " + text, color: dim})
	}
	if text := message(e.Stderr); text != "" {
		out = append(out, line{text: "stderr: " + text, color: dim})
	}
	return out
}

// runDone lists the failures. The counts are left to the summary line that the
// command prints, except for agents that ended with an error: then the score can be
// that of something broken.
func runDone(e RunDone) []line {
	failures, others := e.listed()
	if len(failures) == 0 {
		return agentErrors(e)
	}
	out := append(agentErrors(e), say(plain, "not passed:")...)
	for _, f := range failures {
		text := fmt.Sprintf("  %s %s %s", attemptName(f.TaskID, f.Attempt), name(string(f.Outcome)), name(string(f.Reason)))
		out = append(out, line{text: strings.TrimRight(text, " ")})
	}
	if others > 0 {
		out = append(out, line{text: fmt.Sprintf("  and %d more", others)})
	}
	return out
}

// maxReasons is how many reasons the end of a run names.
const maxReasons = 3

// ending says what came of a run, and what to type next.
func ending(e Ending) (out []line) {
	var reasons []string
	others := 0
	for i, r := range e.Reasons {
		if i < maxReasons {
			reasons = append(reasons, fmt.Sprintf("%s %d", name(r.Reason), r.Count))
		} else {
			others += r.Count
		}
	}
	if others > 0 {
		reasons = append(reasons, fmt.Sprintf("others %d", others))
	}
	if len(reasons) > 0 {
		out = append(out, say(plain, "what failed most: %s", strings.Join(reasons, ", "))...)
	}
	for _, r := range e.Rates {
		judged := ""
		if r.Basis == verdict.Judged {
			judged = ", " + r.Basis.String()
		}
		out = append(out, say(plain, "rate%s: %.1f %% [%.1f, %.1f], 95 %% interval; %d of %d passed", judged,
			100*r.Rate, 100*r.Interval[0], 100*r.Interval[1], r.Passed, r.Attempts)...)
	}
	if e.Next != "" {
		out = append(out, say(plain, "next: %s", redact.Escape(e.Next))...)
	}
	return out
}

func agentErrors(e RunDone) []line {
	var out []line
	if e.AgentErrors > 0 {
		out = say(yellow, "warning: in %d of %d attempts, the agent ended with an error (exit_code in the records is not 0)", e.AgentErrors, e.Total)
	}
	for _, c := range e.Answers.Unusual() {
		out = append(out, say(yellow, "warning: %d of %d attempts that asked a model %s", c.N, e.Answers.Asked, c.What)...)
	}
	return out
}

// attemptName names an attempt: the task, and the number of every attempt but
// the first.
func attemptName(taskID string, attempt int) string {
	if attempt < 2 {
		return name(taskID)
	}
	return fmt.Sprintf("%s#%d", name(taskID), attempt)
}

// name makes a name from outside one word; an empty one stays empty.
func name(s string) string {
	if s == "" {
		return ""
	}
	return redact.QuoteShort(s, maxName)
}

// message makes a long text from outside fit for one line: escaped, clipped,
// spaces collapsed.
func message(s string) string {
	// No need to split a megabyte of output into words to show 1000 characters.
	s = s[:min(len(s), 64<<10)]
	return redact.EscapeShort(strings.Join(strings.Fields(s), " "), maxMessage)
}

// render returns the line with its newline, wrapped to width columns when
// width is not 0. Rows after the first are indented: if the terminal wrapped
// them, the text could choose how a row begins.
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
		case !color || l.color == plain:
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

func paint(s string, color ansi.Attr) string { return ansi.SGR(color) + s + ansi.ResetStyle }

// wrap splits s into rows of at most width columns, all but the first shorter
// by indent, between words. A word that fits in no row is broken, at the end of a row that
// it would leave half empty. Every character outside ASCII counts as two columns, the most
// that a terminal uses.
func wrap(s string, width, indent int) []string {
	var rows []string
	start, used, word := 0, 0, 0 // word is where the last word begins
	for i, r := range s {
		w := columns(string(r))
		if used+w > width {
			end := i
			if word > start && (columns(s[start:word]) > width/2 || fits(s[word:], width-indent)) {
				end = word
			}
			rows = append(rows, s[start:end])
			start, used = end, indent+columns(s[end:i])
		}
		if used += w; r == ' ' {
			word = i + 1
		}
	}
	return append(rows, s[start:])
}

// fits reports whether the first word of a text is at most width columns wide.
func fits(s string, width int) bool {
	s = s[:min(len(s), 4*width)]
	word, _, _ := strings.Cut(s, " ")
	return columns(word) <= width
}
