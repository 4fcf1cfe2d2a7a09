package repository

import "strings"

// wildmatch reports whether a text matches a pattern as git matches paths: "*"
// and "?" do not cross a slash, "**" between slashes means any number of
// folders, "[…]" for one character. It takes time in proportion to the
// product of the lengths at most.
func wildmatch(pattern, text string) bool {
	m := matcher{pattern: pattern, text: text}
	return m.match(0, 0)
}

type matcher struct {
	pattern, text string
	failed        map[[2]int]bool // places after a star that do not match
}

// match compares the pattern from p on with the text from t on.
func (m *matcher) match(p, t int) bool {
	for p < len(m.pattern) {
		c := m.pattern[p]
		if c == '*' {
			return m.star(p, t)
		}
		if t == len(m.text) {
			return false
		}
		switch c {
		case '?':
			if m.text[t] == '/' {
				return false
			}
		case '[':
			end, ok := m.bracket(p, m.text[t])
			if !ok {
				return false
			}
			p = end - 1
		case '\\':
			p++
			if p == len(m.pattern) || m.pattern[p] != m.text[t] {
				return false
			}
		default:
			if c != m.text[t] {
				return false
			}
		}
		p, t = p+1, t+1
	}
	return t == len(m.text)
}

// star matches one or more stars at p.
func (m *matcher) star(p, t int) bool {
	begin := p
	for p < len(m.pattern) && m.pattern[p] == '*' {
		p++
	}
	rest := m.pattern[p:]
	// Two stars are special only where they are a whole part of the path.
	folders := p-begin >= 2 && (begin == 0 || m.pattern[begin-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`))
	if folders && rest != "" && rest[0] == '/' && m.try(p+1, t) {
		return true // no folder at all
	}
	if rest == "" {
		return folders || !strings.Contains(m.text[t:], "/")
	}
	for ; t <= len(m.text); t++ {
		if m.try(p, t) {
			return true
		}
		if t < len(m.text) && m.text[t] == '/' && !folders {
			return false
		}
	}
	return false
}

// try is match, but remembers what failed.
func (m *matcher) try(p, t int) bool {
	if m.failed[[2]int{p, t}] {
		return false
	}
	if m.match(p, t) {
		return true
	}
	if m.failed == nil {
		m.failed = map[[2]int]bool{}
	}
	m.failed[[2]int{p, t}] = true
	return false
}

// bracket compares a character with the class that begins at p, and returns
// where the class ends. A class that does not end matches nothing.
func (m *matcher) bracket(p int, c byte) (end int, ok bool) {
	p++
	negative := p < len(m.pattern) && (m.pattern[p] == '!' || m.pattern[p] == '^')
	if negative {
		p++
	}
	found := false
	for first := true; ; first = false {
		if p >= len(m.pattern) {
			return 0, false
		}
		if m.pattern[p] == ']' && !first {
			break
		}
		if name, after, isClass := m.namedClass(p); isClass {
			in, known := inClass(name, c)
			if !known {
				return 0, false
			}
			found, p = found || in, after
			continue
		}
		lo, next, whole := m.member(p)
		if !whole {
			return 0, false
		}
		hi := lo
		if p = next; p+1 < len(m.pattern) && m.pattern[p] == '-' && m.pattern[p+1] != ']' {
			if hi, p, whole = m.member(p + 1); !whole {
				return 0, false
			}
		}
		// git first compares only the beginning of a range: it counts in a range
		// that holds nothing.
		found = found || c == lo || lo <= c && c <= hi
	}
	return p + 1, found != negative && c != '/'
}

// member returns one character of a class, which a backslash may protect.
func (m *matcher) member(p int) (c byte, next int, ok bool) {
	if m.pattern[p] == '\\' {
		if p++; p == len(m.pattern) {
			return 0, p, false
		}
	}
	return m.pattern[p], p + 1, true
}

// namedClass returns the name of a class such as [:alpha:] that begins at p.
func (m *matcher) namedClass(p int) (name string, after int, ok bool) {
	rest, ok := strings.CutPrefix(m.pattern[p:], "[:")
	if !ok {
		return "", 0, false
	}
	end := strings.IndexByte(rest, ']')
	if end < 1 || rest[end-1] != ':' {
		return "", 0, false
	}
	return rest[:end-1], p + 2 + end + 1, true
}

// inClass reports whether an ASCII character is in a named class.
func inClass(name string, c byte) (in, known bool) {
	lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
	graphic := c > ' ' && c < 0x7f
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < ' ' || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return graphic, true
	case "lower":
		return lower, true
	case "print":
		return graphic || c == ' ', true
	case "punct":
		return graphic && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || c >= '\t' && c <= '\r', true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F', true
	}
	return false, false
}
