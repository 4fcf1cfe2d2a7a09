package redact

import (
	"crypto/sha256"
	"fmt"
	"unicode/utf8"
)

// Excerpt returns b as valid UTF-8 of at most limit bytes, and whether it was
// truncated. Bytes that are not UTF-8 are written as \xNN. If b does not fit, a
// note with the size and SHA-256 of b replaces its middle; if the limit is too
// small for the note, only the beginning is returned. No character is split.
func Excerpt(b []byte, limit int) (text string, truncated bool) {
	return excerpt(b, limit, func(out, raw []byte, r rune) []byte {
		if r == utf8.RuneError && len(raw) == 1 {
			return fmt.Appendf(out, `\x%02x`, raw[0])
		}
		return append(out, raw...)
	})
}

// EscapedExcerpt is [Excerpt] of text escaped as by [EscapeText]; the limit
// applies to the escaped text.
func EscapedExcerpt(b []byte, limit int) (text string, truncated bool) {
	return excerpt(b, limit, func(out, raw []byte, r rune) []byte {
		return appendEscaped(out, string(raw), r, "\n\t")
	})
}

// appender appends the printed form of a character.
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

// head returns the printed form of as many characters as fit, and how many bytes
// of b they are.
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
