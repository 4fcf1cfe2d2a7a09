package preview

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"securebench/internal/agent/harness"
	"securebench/internal/capacity"
	"securebench/internal/console"
	"securebench/internal/redact"
)

// WriteJSON writes the preview as one JSON object and a newline, in ASCII.
func (p *Preview) WriteJSON(w io.Writer) error { return console.WriteJSON(w, "the preview", p) }

// maxImages is how many images the text lists.
const maxImages = 20

// WriteText writes the preview for a terminal.
func (p *Preview) WriteText(w io.Writer) error {
	t := console.NewTable(w)
	line := func(name, format string, args ...any) {
		t.Line("%s\t%s", name, redact.Escape(fmt.Sprintf(format, args...)))
	}
	line("would run", "%s", p.work())
	line("agent", "%s", redact.Quote(p.Agent)+model(p.Model))
	line("pack", "%s, version %d", redact.Quote(p.Pack), p.Version)
	if p.LeftOut > 0 {
		line("left out", "%d of %s", p.LeftOut, console.Plural(p.Tasks+p.LeftOut, "row"))
	}
	if p.Chosen != "" {
		line("chosen by", "%s", p.Chosen)
	}
	for i, fam := range names(p.Families) {
		text := fmt.Sprintf("%s: %s", redact.Quote(fam), console.Plural(p.Families[fam], "task"))
		if p.Unscored[fam] > 0 {
			text += ", which stay pending: nothing here scores them"
		}
		line(first(i, "families"), "%s", text)
	}
	line("output", "%s", redact.Quote(p.Output))
	line("engine", "%s", cmp.Or(p.Engine, "none is needed"))
	for i, img := range p.Images[:min(len(p.Images), maxImages)] {
		state := "missing; " + img.Obtain
		if img.ID != "" {
			state = redact.EscapeShort(img.ID, 22)
		}
		if img.Fault != "" {
			state = "cannot be used: " + img.Fault
		}
		line(first(i, "images"), "%s: %s", redact.Quote(img.Ref), state)
	}
	if n := len(p.Images) - maxImages; n > 0 {
		line("", "and %d more", n)
	}
	p.machines(line)
	line("disk", "%s", cmp.Or(p.Disk, "full"))
	p.Estimate.lines(line, p.Hub != "", p.Sizes)
	if p.Budget > 0 {
		line("", "at most %.2f USD, by the budget of each attempt", p.Budget)
	}
	p.Judge.lines(line)
	if t := p.Total; t != (harness.Budget{}) {
		line("", "at most %s, by the budget of the run", total(t))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the preview: %w", err)
	}
	return nil
}

// machines shows what sandboxes need, and of which machines.
func (p *Preview) machines(line func(name, format string, args ...any)) {
	if p.Hub != "" {
		line("sandboxes", "on workers, at most %d%s", p.Sandboxes, kept(p.SandboxesKept))
		line("at a time", "%s: %s", console.Plural(p.Workers, "task"), p.Why)
		line("workers", "would connect to %s and the next port", redact.Quote(p.Hub))
		return
	}
	line("sandboxes", "at most %d", p.Sandboxes)
	line("at a time", "%s: %s", console.Plural(p.Workers, "task"), p.Why)
	line("memory", "%s", needed(p.Memory, p.Usable))
	if p.EngineDisk > 0 {
		line("", "%s of the engine's disk", needed(p.EngineDisk, p.UsableDisk))
	}
}

// kept says how many sandboxes a worker has besides.
func kept(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d for each verification that one makes at a time", n)
}

// total writes a budget of a whole run.
func total(b harness.Budget) string {
	var parts []string
	if b.Requests > 0 {
		parts = append(parts, console.Plural(int(b.Requests), "request"))
	}
	if b.Tokens > 0 {
		parts = append(parts, console.Plural(int(b.Tokens), "token"))
	}
	if b.Cost > 0 {
		parts = append(parts, fmt.Sprintf("%.2f USD", b.Cost))
	}
	return strings.Join(parts, ", ")
}

func (p *Preview) work() string {
	text := fmt.Sprintf("%s, %s each", console.Plural(p.Tasks, "task"), console.Plural(p.Attempts, "attempt"))
	if p.Recorded > 0 {
		text += fmt.Sprintf("; %d recorded, %d remain", p.Recorded, p.Remaining)
	}
	return text
}

func model(name string) string {
	if name == "" {
		return ""
	}
	return ", model " + redact.Quote(name)
}

// first is the heading of a list's first line; the others have none.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

func needed(most, usable int64) string {
	if most == 0 {
		return "none for sandboxes"
	}
	text := "up to " + capacity.Bytes(most) + " at once"
	if usable > 0 {
		text += " of " + capacity.Bytes(usable)
	}
	return text
}

// lines shows time and cost.
func (e *Estimate) lines(line func(name, format string, args ...any), away bool, sizes *Sizes) {
	if e == nil {
		const unknown = "unknown: no earlier records; give --estimate-from RUN"
		line("time", unknown)
		if sizes == nil {
			line("cost", unknown)
			return
		}
		sizes.lines(line)
		return
	}
	source := fmt.Sprintf("by %s of %s", console.Plural(e.Records, "record"), redact.Quote(e.From))
	if !e.Verified {
		source += ", which does not verify"
	}
	if took := duration(e.Seconds); away {
		line("time", "about %s with one task at a time, %s", took, source)
	} else {
		line("time", "about %s, %s", took, source)
	}
	var cost []string
	if e.MicroUSD != nil {
		cost = append(cost, fmt.Sprintf("about %.2f USD", float64(*e.MicroUSD)/1e6))
	}
	if e.InputTokens+e.OutputTokens > 0 {
		cost = append(cost, fmt.Sprintf("%d input and %d output tokens", e.InputTokens, e.OutputTokens))
	}
	line("cost", "%s", cmp.Or(strings.Join(cost, ", "), "unknown: those records have none"))
}

// duration writes seconds for people.
func duration(seconds float64) string {
	s := int64(seconds + 0.5)
	switch {
	case s < 1:
		return "less than a second"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	}
	return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
}
