package progress

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"securebench/internal/verdict"
)

// The display below the lines: one row with the bar, one with counts, then the
// attempts that run and the last failures, as far as the terminal has room.
const (
	maxRunning = 5
	minColumns = 20 // below it there is room for one number only
	minBar     = 8
	wordWidth  = 8 // of a phase, or of how an attempt ended
)

// canvas is what the display is drawn on.
type canvas struct {
	width, height int
	color         bool
}

// frame returns the rows of the display, none if there is nothing to show. A row
// has fewer columns than the terminal, however the terminal counts letters.
func (s *status) frame(c canvas, now time.Time) []string {
	if s.total == 0 || s.over {
		return nil
	}
	if c.width < minColumns {
		return []string{clip(fmt.Sprintf("%d/%d", s.done(), s.total), c.width)}
	}
	rows := []string{s.barRow(c, now)}
	room := c.height - 2 // the line above stays in sight
	if len(rows) < room {
		rows = append(rows, s.countRow(c, now))
	}
	if s.away && len(rows) < room {
		rows = append(rows, workersRow(c, s.busy()))
	}
	active := s.active()
	failures := s.failures[max(len(s.failures)-max(room-len(rows)-1, 0), 0):]
	running := min(len(active), maxRunning, max(room-len(rows)-len(failures), 0))
	if running < len(active) && running > 1 {
		running-- // for the row that counts the others
	}
	for _, a := range active[:running] {
		rows = append(rows, c.row(a.phase, dim, attemptName(a.id, a.number), c.end(a, now)))
	}
	if n := len(active) - running; n > 0 && len(rows)+len(failures) < room {
		rows = append(rows, clip(fmt.Sprintf("  and %d more", n), c.width))
	}
	for _, f := range failures[:min(len(failures), max(room-len(rows), 0))] {
		rows = append(rows, c.row(f.word, f.color, f.id, name(f.reason)))
	}
	return rows
}

// workersRow names as many workers as there is room for.
func workersRow(c canvas, workers []string) string {
	row := "no worker is connected"
	for i, w := range workers {
		more := ""
		if left := len(workers) - i - 1; left > 0 {
			more = fmt.Sprintf(", and %d more", left)
		}
		next := "workers: " + w
		if i > 0 {
			next = row + ", " + w
		}
		if columns(next+more) > c.width {
			if i == 0 {
				return clip(fmt.Sprintf("%d workers", len(workers)), c.width)
			}
			return fmt.Sprintf("%s, and %d more", row, len(workers)-i)
		}
		row = next
	}
	return clip(row, c.width)
}

// end is the end of the row of an attempt: its age and, where it fits, its worker.
func (c canvas) end(a attempt, now time.Time) string {
	old := age(now.Sub(a.since))
	if room := c.width/3 - len(old) - 2; a.worker != "" && room >= 2*minBar {
		return clip(name(a.worker), room) + "  " + old
	}
	return old
}

// barRow draws the bar over what the numbers leave.
func (s *status) barRow(c canvas, now time.Time) string {
	done := s.done()
	numbers := fmt.Sprintf("%d/%d", done, s.total)
	parts := []string{fmt.Sprintf("%d %%", 100*done/s.total)}
	if rate, left := s.pace(now); rate > 0 {
		parts = append(parts, "ETA "+age(left), perTime(rate))
	}
	for _, part := range parts {
		if len(numbers)+len(part)+2 > c.width-minBar-2 {
			break
		}
		numbers += "  " + part
	}
	room := c.width - len(numbers) - 2
	if room < minBar {
		return clip(numbers, c.width)
	}
	full := min(room*done/s.total, room)
	if c.color {
		return paint(strings.Repeat(" ", full), ansi.AttrGreenBackgroundColor) +
			paint(strings.Repeat(" ", room-full), ansi.AttrBrightBlackBackgroundColor) + "  " + numbers
	}
	full = min((room-2)*done/s.total, room-2)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", room-2-full) + "]  " + numbers
}

// countRow counts how attempts ended. What does not fit is left out, zeros first.
func (s *status) countRow(c canvas, now time.Time) string {
	type part struct {
		text  string
		color ansi.Attr
		must  bool
	}
	count := func(n int, word string, color ansi.Attr, must bool) part {
		return part{fmt.Sprintf("%d %s", n, word), color, must || n > 0}
	}
	counts := s.counts.Of(verdict.Computed)
	parts := []part{count(counts.Passed, "pass", green, true), count(counts.Failed, "fail", red, true),
		count(counts.Pending, "pending", yellow, true), count(counts.Infrastructure, "infra", yellow, false)}
	if judged := s.counts.Of(verdict.Judged); judged.Total > 0 {
		text := fmt.Sprintf("judged: %d pass, %d fail, %d pending", judged.Passed, judged.Failed, judged.Total-judged.Verified)
		parts = append(parts, part{text, plain, true})
	}
	parts = append(parts, []part{{fmt.Sprintf("%d running", len(s.active())), plain, true}, count(len(s.running)-len(s.active()), "waiting", plain, false), {s.pacesText(), plain, len(s.paces) > 0}, {age(s.elapsed(now)), plain, true}}...)
	var out []string
	used := 0
	for _, p := range parts {
		if !p.must || used+len(p.text)+2 > c.width {
			continue
		}
		used += len(p.text) + 2
		out = append(out, c.paint(p.text, p.color))
	}
	return strings.Join(out, "  ")
}

// pacesText says how many requests may be under way, at each provider that has a bound.
func (s *status) pacesText() string {
	var out []string
	for _, provider := range slices.Sorted(maps.Keys(s.paces)) {
		out = append(out, strconv.Itoa(s.paces[provider]))
	}
	return "pace " + strings.Join(out, "+")
}

// row is a row about an attempt: a word, its name, and something short at the end.
func (c canvas) row(word string, color ansi.Attr, id, end string) string {
	head := fmt.Sprintf("  %-*s ", wordWidth, word)
	end = clip(end, max(c.width/3, 4))
	room := c.width - len(head) - columns(end) - 2
	id = clip(id, max(room, 1))
	pad := max(room-columns(id), 0)
	return c.paint(head, color) + id + strings.Repeat(" ", pad+2) + end
}

func (c canvas) paint(s string, color ansi.Attr) string {
	if !c.color || s == "" || color == plain {
		return s
	}
	return paint(s, color)
}

// columns counts two columns for each character outside ASCII, the most that a
// terminal uses.
func columns(s string) int {
	n := 0
	for _, r := range s {
		if n++; r >= utf8.RuneSelf {
			n++
		}
	}
	return n
}

// clip cuts text to a number of columns.
func clip(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	const dots = "..."
	room := max(width-len(dots), 0)
	used := 0
	for i, r := range s {
		if used++; r >= utf8.RuneSelf {
			used++
		}
		if used > room {
			return (s[:i] + dots)[:min(i+len(dots), i+width)]
		}
	}
	return s
}

// age shows a time in a few letters.
func age(d time.Duration) string {
	s := int(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
}

// perTime shows a rate in the unit in which it is 1 or more.
func perTime(perSecond float64) string {
	switch {
	case perSecond >= 1:
		return fmt.Sprintf("%.1f/s", perSecond)
	case perSecond*60 >= 1:
		return fmt.Sprintf("%.1f/min", perSecond*60)
	}
	return fmt.Sprintf("%.1f/h", perSecond*3600)
}

// erase returns what removes rows from the screen, the cursor being at the end of
// the last. They were drawn on a terminal that may have been wider: a terminal that
// is made narrower breaks their rows.
func erase(rows []string, width int) string {
	if len(rows) == 0 {
		return ""
	}
	up := -1
	for _, row := range rows {
		up += max((ansi.StringWidth(row)+width-1)/max(width, 1), 1)
	}
	out := "\r"
	if up > 0 {
		out += ansi.CursorUp(up)
	}
	return out + ansi.EraseScreenBelow
}
