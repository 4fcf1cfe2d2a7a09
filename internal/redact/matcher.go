package redact

// maxBreak is how many line breaks and blanks in a row may stand inside of a
// secret. It bounds what is held of text that is nothing else.
const maxBreak = 256

// matcher looks for the patterns of an automaton in a text that comes in
// pieces. Line breaks, and blanks where a line begins, may stand anywhere in
// a pattern: that is how tools wrap what is long.
type matcher struct {
	auto  *automaton
	state int32
	// at is where the bytes of the state stand: as many as its depth.
	at []int
	// begun says that a line has begun inside of what may be a pattern, and
	// ignored is how many bytes in a row were no part of it.
	begun   bool
	ignored int
}

// scan reads a piece whose first byte stands at pos, and calls found for each
// match in it.
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

// keep notes where a byte stands, and forgets all but the last depth of them.
// A few are moved to the front, so that text with nothing in it costs no new
// memory.
func (m *matcher) keep(pos, depth int) {
	m.at = append(m.at, pos)
	last := m.at[len(m.at)-depth:]
	if depth > 64 {
		m.at = last
		return
	}
	m.at = m.at[:copy(m.at, last)]
}

// ignore reports whether a byte only wraps what may be a pattern.
func (m *matcher) ignore(b byte) bool {
	switch {
	case b == '\n' || b == '\r':
		m.begun = true
	case !m.begun || b != ' ' && b != '\t' || m.auto.step(m.state, b) != 0:
		m.begun, m.ignored = false, 0
		return false
	}
	if m.ignored++; m.ignored > maxBreak {
		m.reset()
	}
	return true
}

func (m *matcher) reset() { m.state, m.at, m.begun, m.ignored = 0, m.at[:0], false, 0 }

// hold is where what may still become a match begins; all before end where
// nothing may.
func (m *matcher) hold(end int) int {
	if len(m.at) == 0 {
		return end
	}
	return m.at[0]
}

// unbroken is a pattern as the matcher sees it.
func unbroken(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] != '\n' && s[i] != '\r' {
			out = append(out, s[i])
		}
	}
	return string(out)
}
