package redact

import "strings"

// maxBreak is how many line breaks and blanks in a row a wrapped secret may
// contain. It bounds the memory that a flood of them takes.
const maxBreak = 256

// matcher finds the patterns of an automaton in a text that comes in pieces.
// Line breaks, and blanks at the start of a line, may occur anywhere in a
// pattern, because tools wrap long texts.
type matcher struct {
	auto  *automaton
	state int32
	at    []int // the offsets of the bytes of the state, as many as its depth
	// newLine is set after a line break inside a possible pattern; ignored
	// counts the bytes in a row that were not part of it.
	newLine bool
	ignored int
}

// scan reads a piece that begins at offset pos and calls found for each match.
func (m *matcher) scan(piece []byte, pos int, found func(span)) {
	a := m.auto
	for i := 0; i < len(piece); i++ {
		if m.state == 0 {
			i = a.skip(piece, i)
		} else if m.ignore(piece[i]) {
			continue
		}
		m.state = a.move(m.state, piece[i])
		n := &a.nodes[m.state]
		m.keep(pos+i, int(n.depth))
		if n.match > 0 {
			found(span{m.at[len(m.at)-int(n.match)], pos + i + 1, n.mark, int(n.match)})
		}
	}
}

// passes reports whether a piece leaves the matcher where it is, at the root, and
// has no match and no line break within what may become one.
func (m *matcher) passes(piece []byte) bool {
	if m.state != 0 {
		return false
	}
	a, state := m.auto, int32(0)
	for i := 0; i < len(piece); i++ {
		if state == 0 {
			i = a.skip(piece, i)
		} else if piece[i] == '\n' || piece[i] == '\r' {
			return false
		}
		if state = a.move(state, piece[i]); a.nodes[state].match > 0 {
			return false
		}
	}
	return state == 0
}

// keep notes the offset of a byte and drops all but the last depth offsets. Up
// to 64 are moved to the front, so that text without secrets allocates nothing.
func (m *matcher) keep(pos, depth int) {
	m.at = append(m.at, pos)
	last := m.at[len(m.at)-depth:]
	if depth > 64 {
		m.at = last
		return
	}
	m.at = m.at[:copy(m.at, last)]
}

// ignore reports whether a byte only wraps a possible pattern.
func (m *matcher) ignore(b byte) bool {
	switch {
	case b == '\n' || b == '\r':
		m.newLine = true
	case !m.newLine || b != ' ' && b != '\t' || m.auto.step(m.state, b) != 0:
		m.newLine, m.ignored = false, 0
		return false
	}
	if m.ignored++; m.ignored > maxBreak {
		m.reset()
	}
	return true
}

func (m *matcher) reset() { m.state, m.at, m.newLine, m.ignored = 0, m.at[:0], false, 0 }

// pending returns the offset at which a possible match begins, end if there is
// none.
func (m *matcher) pending(end int) int {
	if len(m.at) == 0 {
		return end
	}
	return m.at[0]
}

// unbroken returns a pattern without line breaks, as the matcher sees it.
func unbroken(s string) string { return strings.NewReplacer("\n", "", "\r", "").Replace(s) }
