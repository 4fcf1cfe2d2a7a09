package transcript

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"securebench/internal/redact"
)

// WriteText writes an attempt for a terminal. No line begins with text from
// outside: what an agent printed cannot look like the verdict.
func (a *Attempt) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "task         %s\n", redact.Quote(a.TaskID))
	fmt.Fprintf(out, "attempt      %d, of row %d, family %s\n", a.Number, a.Index, a.Family)
	fmt.Fprintf(out, "verdict      %s\n", a.Heading())
	for line := range strings.Lines(a.Verdict) {
		fmt.Fprintf(out, "             %s\n", strings.TrimSuffix(line, "\n"))
	}
	for line := range strings.Lines(a.Message) {
		fmt.Fprintf(out, "             | %s\n", strings.TrimSuffix(line, "\n"))
	}
	fmt.Fprintf(out, "containment  %s\n", a.Containment)
	fmt.Fprintf(out, "basis        %s\n", a.Basis)
	for i, label := range a.Labels {
		head := "labels"
		if i > 0 {
			head = ""
		}
		if words := LabelWords(label); words != "" {
			label += ": " + words
		}
		fmt.Fprintf(out, "%-12s %s\n", head, label)
	}
	for _, p := range a.Parts {
		fmt.Fprintf(out, "\n%s\n", p.Title)
		if p.Note != "" {
			fmt.Fprintf(out, "  (%s)\n", p.Note)
		}
		for line := range strings.Lines(p.Text) {
			fmt.Fprintf(out, "  | %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return out.Flush()
}

// Heading is the outcome with its reason.
func (a *Attempt) Heading() string {
	if a.Reason == "" {
		return a.Outcome
	}
	return a.Outcome + " (" + a.Reason + ")"
}
