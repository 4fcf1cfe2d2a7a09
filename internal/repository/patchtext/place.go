package patchtext

import (
	"strings"
)

// How much of a line counts where it is compared.
const (
	exact = iota
	lineEnds
	blanks
	fuzzy // and lines at the edges of a hunk may differ
)

// maxFuzz is how many lines around a change may differ.
const maxFuzz = 2

// text is a file's lines.
type text struct {
	lines   []string
	open    bool // the last line has no newline
	returns bool // every line ends with a carriage return
	plain   bool // none does
}

func split(data []byte) text {
	t := text{returns: true, plain: true}
	if len(data) == 0 {
		return text{plain: true}
	}
	t.lines = strings.Split(string(data), "\n")
	if n := len(t.lines) - 1; t.lines[n] == "" {
		t.lines = t.lines[:n]
	} else {
		t.open = true
	}
	for i, l := range t.lines {
		if strings.HasSuffix(l, "\r") {
			t.plain = false
		} else if i < len(t.lines)-1 || !t.open {
			t.returns = false
		}
	}
	return t
}

// hunks returns a file's content with the hunks of a section.
func (a *applied) hunks(s *section, data []byte) ([]byte, error) {
	if len(s.hunks) == 0 {
		return data, nil
	}
	in := split(data)
	var out text
	at, moved := 0, 0
	for i := range s.hunks {
		h := &s.hunks[i]
		place, how, err := a.place(h, in, at, moved)
		if err != nil {
			return nil, err
		}
		moved = place - h.stated()
		if place > at {
			out.lines, out.open = append(out.lines, in.lines[at:place]...), in.open && place == len(in.lines)
		}
		if at, err = a.change(&out, in, h, place, how); err != nil {
			return nil, err
		}
	}
	if at < len(in.lines) {
		out.open = in.open
	}
	out.lines = append(out.lines, in.lines[at:]...)
	if len(out.lines) == 0 {
		return nil, nil
	}
	joined := strings.Join(out.lines, "\n")
	if !out.open {
		joined += "\n"
	}
	return []byte(joined), nil
}

// change appends the new side of a hunk, and returns the line behind the old one.
func (a *applied) change(out *text, in text, h *hunk, place, how int) (int, error) {
	at := place
	for _, l := range h.lines {
		inside := at >= 0 && at < len(in.lines)
		switch l.sign {
		case '+':
			if how > exact {
				l.text = in.ended(l.text)
			}
			out.lines, out.open = append(out.lines, l.text), l.last
			continue
		case ' ':
			if inside {
				out.lines, out.open = append(out.lines, in.lines[at]), (in.open || l.last) && at == len(in.lines)-1
			}
		}
		if inside && l.last != (in.open && at == len(in.lines)-1) {
			a.note(EndOfFile)
		}
		if inside && how > exact && !in.returns && !in.plain && strings.HasSuffix(l.text, "\r") != strings.HasSuffix(in.lines[at], "\r") {
			return 0, unclear("the patch has other line ends than a file that has both")
		}
		at++
	}
	switch how {
	case lineEnds:
		a.note(LineEnds)
	case blanks:
		a.note(Whitespace)
	case fuzzy:
		a.note(Fuzz)
	}
	return min(max(at, 0), len(in.lines)), nil
}

// ended returns a line with the end that the file's have.
func (t text) ended(l string) string {
	switch {
	case t.returns:
		return strings.TrimSuffix(l, "\r") + "\r"
	case t.plain:
		return strings.TrimSuffix(l, "\r")
	}
	return l
}

// stated is the line, from 0, where a hunk says that it begins.
func (h *hunk) stated() int {
	if h.old == 0 {
		return h.start
	}
	return h.start - 1
}

// context returns how many lines are before the first change and behind the last.
func (h *hunk) context() (before, after int) {
	n := len(h.lines)
	for before < n && h.lines[before].sign == ' ' {
		before++
	}
	for after < n-before && h.lines[n-1-after].sign == ' ' {
		after++
	}
	return before, after
}

// side returns the lines of the old or the new side.
func (h *hunk) side(sign byte) (out []string) {
	for _, l := range h.lines {
		if l.sign == ' ' || l.sign == sign {
			out = append(out, l.text)
		}
	}
	return out
}

// place finds the one place of a hunk at or behind a line, and how much of its lines
// had to be ignored for it.
func (a *applied) place(h *hunk, in text, from, moved int) (at, how int, err error) {
	old := h.side('-')
	before, after := h.context()
	if len(old) == 0 {
		if len(in.lines) > 0 {
			return 0, 0, unclear("the patch inserts lines without saying between which")
		}
		return 0, exact, nil
	}
	for how := exact; how < fuzzy; how++ {
		at, found, err := a.nearest(h, in, old, from, h.stated()+moved, how, after)
		if err != nil || found {
			return at, how, err
		}
	}
	if before == len(h.lines) || h.trimmed {
		return 0, 0, unclear("the patch does not fit the files")
	}
	if done, err := a.everywhere(in, h.side('+')); err != nil || done {
		return 0, 0, orUnclear(err, "the patch is there already, or does not fit")
	}
	at, err = a.fuzzily(in, old, from, before, after)
	return at, fuzzy, err
}

func orUnclear(err error, why string) error {
	if err != nil {
		return err
	}
	return unclear("%s", why)
}

// nearest finds the place without fuzz. As with git, a hunk that begins at the first
// line belongs there, and one without lines behind its change to the end.
func (a *applied) nearest(h *hunk, in text, old []string, from, wanted, how, after int) (at int, found bool, err error) {
	first, last := from, len(in.lines)-len(old)
	if h.start <= 1 {
		last = min(last, 0)
	}
	if after == 0 {
		first = max(first, last)
	}
	var places []int
	for at := first; at <= last; at++ {
		n, err := a.differ(in, old, at, how, 0, 0, 0)
		if err != nil {
			return 0, false, err
		}
		if n == 0 {
			places = append(places, at)
		}
	}
	if len(places) == 0 {
		return 0, false, nil
	}
	best, tie := places[0], false
	for _, p := range places[1:] {
		switch d, b := abs(p-wanted), abs(best-wanted); {
		case d < b:
			best, tie = p, false
		case d == b:
			tie = true
		}
	}
	if tie || how == blanks && len(places) > 1 && best != wanted {
		return 0, false, errSeveral
	}
	return best, true, nil
}

var errSeveral = &Unclear{Why: "the patch has a hunk that fits several places equally well", Ambiguous: true}

func abs(n int) int { return max(n, -n) }

// fuzzily finds the one place where the fewest lines around the change differ.
func (a *applied) fuzzily(in text, old []string, from, before, after int) (int, error) {
	best, least, ties := 0, maxFuzz+1, 0
	for at := from - min(before, maxFuzz); at <= len(in.lines)-len(old)+min(after, maxFuzz); at++ {
		if at < from && from > 0 {
			continue
		}
		n, err := a.differ(in, old, at, blanks, before, after, maxFuzz)
		if err != nil {
			return 0, err
		}
		switch {
		case n < least:
			best, least, ties = at, n, 0
		case n == least:
			ties++
		}
	}
	switch {
	case least > maxFuzz:
		return 0, unclear("the patch does not fit the files")
	case ties > 0:
		return 0, errSeveral
	}
	return best, nil
}

// everywhere reports whether lines are together anywhere.
func (a *applied) everywhere(in text, lines []string) (bool, error) {
	for at := 0; at <= len(in.lines)-len(lines); at++ {
		if n, err := a.differ(in, lines, at, blanks, 0, 0, 0); err != nil || n == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// differ counts how many lines differ at a place, up to one more than allowed. Only
// those of the context may, and one that is not blank has to be there.
func (a *applied) differ(in text, old []string, at, how, before, after, allowed int) (n int, err error) {
	firm := allowed == 0
	for i, l := range old {
		if a.work--; a.work < 0 {
			return 0, unclear("the patch takes too long to be fitted")
		}
		a.work -= len(l) / 64
		if p := at + i; p >= 0 && p < len(in.lines) && same(in.lines[p], l, how) {
			firm = firm || strings.TrimSpace(l) != ""
			continue
		}
		if n++; n > allowed || i >= before && i < len(old)-after {
			return maxFuzz + 1, nil
		}
	}
	if !firm {
		return maxFuzz + 1, nil
	}
	return n, nil
}

// same compares two lines.
func same(a, b string, how int) bool {
	switch how {
	case exact:
		return a == b
	case lineEnds:
		return strings.TrimSuffix(a, "\r") == strings.TrimSuffix(b, "\r")
	}
	return strings.TrimRight(a, " \t\r") == strings.TrimRight(b, " \t\r")
}
