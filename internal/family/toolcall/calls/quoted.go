package calls

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoteAt returns where the quote of a text in Python's syntax is, which may have one or
// two letters before it, or -1.
func quoteAt(s string) int {
	for i := range min(len(s), 3) {
		switch s[i] {
		case '\'', '"':
			return i
		case 'r', 'R', 'b', 'B', 'f', 'F', 'u', 'U':
		default:
			return -1
		}
	}
	return -1
}

// quoted reads a text. One that Python could not read is a bad token.
func (s *scanner) quoted(t *token) {
	t.kind = badToken
	rest := s.text[s.at:]
	n := quoteAt(rest)
	prefix := strings.ToLower(rest[:n])
	if len(prefix) == 2 && !strings.Contains("rb br rf fr", prefix) {
		return
	}
	quote := rest[n : n+1]
	if strings.HasPrefix(rest[n:], strings.Repeat(quote, 3)) {
		quote = rest[n : n+3]
	}
	begin := n + len(quote)
	end := closingQuote(rest[begin:], quote)
	if end < 0 {
		return
	}
	content := rest[begin : begin+end]
	text, ok := content, true
	if !strings.Contains(prefix, "r") {
		text, ok = unescape(content)
	}
	t.kind, t.formatted = valueToken, strings.Contains(prefix, "f")
	if ok && !strings.ContainsAny(prefix, "bf") {
		t.value = Value{Kind: String, Text: text}
	}
	s.at += begin + end + len(quote)
}

// closingQuote returns where a text ends, or -1. One with a single quote ends on its line.
func closingQuote(s, quote string) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '\n' && len(quote) == 1:
			return -1
		case strings.HasPrefix(s[i:], quote):
			return i
		}
	}
	return -1
}

// unescape resolves the escapes of a text; false if it has one that means no character.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	const letters, meant = `\'"abfnrtv`, "\\'\"\a\b\f\n\r\t\v"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		switch at := strings.IndexByte(letters, c); {
		case at >= 0:
			b.WriteByte(meant[at])
		case c == '\n': // the line goes on
		case c >= '0' && c <= '7':
			end := i + 1
			for end < min(len(s), i+3) && s[end] >= '0' && s[end] <= '7' {
				end++
			}
			n, _ := strconv.ParseUint(s[i:end], 8, 16)
			b.WriteRune(rune(n))
			i = end - 1
		case c == 'x', c == 'u', c == 'U':
			width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			n, err := strconv.ParseUint(s[i+1:min(len(s), i+1+width)], 16, 32)
			if err != nil || i+width >= len(s) || !utf8.ValidRune(rune(n)) {
				return "", false
			}
			b.WriteRune(rune(n))
			i += width
		case c == 'N':
			return "", false // a name of a character
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), true
}
