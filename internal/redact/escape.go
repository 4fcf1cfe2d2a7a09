package redact

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes text from outside safe for one line of a terminal or log: it
// escapes everything that a reader would not see or a terminal would interpret.
// These are all control characters (including newline, tab, ESC, DEL and C1),
// bidirectional controls, zero-width and other invisible characters, line and
// paragraph separators, private-use and unassigned characters, and bytes that
// are not UTF-8. Bytes become \xNN, characters \u{XXXX}. A backslash is not
// escaped, so the result cannot be parsed back, and escaping twice changes
// nothing.
func Escape(s string) string { return escape(s, "") }

// EscapeText is [Escape] for text of several lines: it keeps newlines and tabs.
func EscapeText(s string) string { return escape(s, "\n\t") }

// Quote makes a name from outside one word of a line that programs read too. A
// name of letters, digits and harmless signs is not changed; any other is
// quoted, with quotes, backslashes and invisible characters escaped as in a Go
// string, so that [strconv.Unquote] returns the name, byte for byte.
func Quote(s string) string {
	if s != "" && strings.Trim(s, plainRunes) == "" {
		return s
	}
	out := []byte{'"'}
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, rest[0])
		case unicode.IsPrint(r) && visible(r):
			out = append(out, rest[:size]...)
		default:
			q := strconv.QuoteRuneToASCII(r)
			out = append(out, q[1:len(q)-1]...)
		}
		rest = rest[size:]
	}
	return string(append(out, '"'))
}

// QuoteShort is [Quote], cut to limit characters, the last of them dots and the
// closing quote.
func QuoteShort(s string, limit int) string {
	// This cut may split a character; the second one removes it.
	q := Quote(s[:min(len(s), 8*limit)])
	if utf8.RuneCountInString(q) <= limit {
		return q
	}
	end := "..."
	if q[0] == '"' {
		end += `"`
	}
	return string([]rune(q)[:limit-len(end)]) + end
}

// QuoteFew is the first of a list's names for a message, quoted and cut, and how many
// more there are.
func QuoteFew(names []string) string {
	const few, limit = 5, 60
	var out []string
	for _, name := range names[:min(len(names), few)] {
		out = append(out, QuoteShort(name, limit))
	}
	if more := len(names) - few; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

// EscapeShort is [Escape], cut to limit characters, the last three of them dots.
func EscapeShort(s string, limit int) string {
	// This cut may split a character; the second one removes it.
	s = Escape(s[:min(len(s), 8*limit)])
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-3]) + "..."
}

// plainRunes need no quotes: none of them separates, quotes or escapes.
const plainRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,~"

func escape(s, keep string) string {
	i := 0
	for i < len(s) && (s[i] >= ' ' && s[i] < 0x7f || strings.IndexByte(keep, s[i]) >= 0) {
		i++
	}
	if i == len(s) {
		return s
	}
	out := append(make([]byte, 0, len(s)+16), s[:i]...)
	for rest := s[i:]; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		out = appendEscaped(out, rest[:size], r, keep)
		rest = rest[size:]
	}
	return string(out)
}

// appendEscaped appends one character; raw is its bytes.
func appendEscaped(out []byte, raw string, r rune, keep string) []byte {
	switch {
	case r == utf8.RuneError && len(raw) == 1, r < ' ' && !strings.ContainsRune(keep, r), r == 0x7f:
		return fmt.Appendf(out, `\x%02x`, raw[0])
	case r < 0x7f || visible(r):
		return append(out, raw...)
	}
	return fmt.Appendf(out, `\u{%04X}`, r)
}

// visible reports whether r has a glyph or is a space, and is not among the
// letters and marks that renderers ignore by default.
func visible(r rune) bool {
	return unicode.IsGraphic(r) &&
		!unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
