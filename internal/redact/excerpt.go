package redact

import (
	"crypto/sha256"
	"fmt"
	"unicode/utf8"
)

// Excerpt returns b as valid UTF-8 of at most limit bytes and whether
// something was left out. Bytes that are not UTF-8 are written as \xNN. What
// does not fit is cut out of the middle, at the ends of characters, and a note
// with the size and SHA-256 of all of b stands in its place; a limit too small
// for the note gives the beginning alone.
func Excerpt(b []byte, limit int) (text string, truncated bool) {
	return excerpt(b, limit, func(out, raw []byte, r rune) []byte {
		if r == utf8.RuneError && len(raw) == 1 {
			return fmt.Appendf(out, `\x%02x`, raw[0])
		}
		return append(out, raw...)
	})
}

// EscapedExcerpt is [Excerpt] of text that is escaped as by [EscapeText]; the
// limit holds for the escaped text.
func EscapedExcerpt(b []byte, limit int) (text string, truncated bool) {
	return excerpt(b, limit, func(out, raw []byte, r rune) []byte {
		return appendEscaped(out, string(raw), r, "\n\t")
	})
}

// appender appends a character in its printed form.
type appender func(out, raw []byte, r rune) []byte

func excerpt(b []byte, limit int, add appender) (string, bool) {
	if len(b) <= limit {
		if all, n := head(b, limit, add); n == len(b) {
			return string(all), false
		}
	}
	note := fmt.Sprintf("\n[cut: %d bytes in all, sha256:%x]\n", len(b), sha256.Sum256(b))
	if limit < 2*len(note) {
		out, _ := head(b, limit, add)
		return string(out), true
	}
	room := limit - len(note)
	out, n := head(b, room-room/4, add)
	out = append(out, note...)
	return string(append(out, tail(b[n:], room/4, add)...)), true
}

// head returns the printed form of as many characters as fit, and how many
// bytes they had.
func head(b []byte, limit int, add appender) (out []byte, n int) {
	for n < len(b) {
		r, size := utf8.DecodeRune(b[n:])
		next := add(out, b[n:n+size], r)
		if len(next) > limit {
			break
		}
		out, n = next, n+size
	}
	return out, n
}

// tail returns the printed form of as many of the last characters as fit.
func tail(b []byte, limit int, add appender) []byte {
	start, used := len(b), 0
	for start > 0 {
		r, size := utf8.DecodeLastRune(b[:start])
		used += len(add(nil, b[start-size:start], r))
		if used > limit {
			break
		}
		start -= size
	}
	out, _ := head(b[start:], limit, add)
	return out
}
