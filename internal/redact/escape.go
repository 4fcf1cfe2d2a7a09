package redact

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes text from outside safe for one line of a terminal or log:
// everything that a reader would not see, or that a terminal would obey, is
// written out. These are all control characters (newline, tab, ESC, DEL and
// C1 among them), bidirectional controls, zero-width and other invisible
// characters, line and paragraph separators, private-use and unassigned
// characters, and bytes that are not UTF-8. Bytes become \xNN, characters
// \u{XXXX}. A backslash stays one, so the result is for eyes, not for parsing
// back; escaping twice changes nothing.
func Escape(s string) string { return escape(s, "") }

// EscapeText is Escape for text of several lines: newlines and tabs stay.
func EscapeText(s string) string { return escape(s, "\n\t") }

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

// appendEscaped appends one character, raw as it came.
func appendEscaped(out []byte, raw string, r rune, keep string) []byte {
	switch {
	case r == utf8.RuneError && len(raw) == 1, r < ' ' && !strings.ContainsRune(keep, r), r == 0x7f:
		return fmt.Appendf(out, `\x%02x`, raw[0])
	case r < 0x7f || visible(r):
		return append(out, raw...)
	}
	return fmt.Appendf(out, `\u{%04X}`, r)
}

// visible reports whether r has a glyph or is a space, and is not one of the
// letters and marks that Unicode tells renderers to show as nothing.
func visible(r rune) bool {
	return unicode.IsGraphic(r) &&
		!unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
