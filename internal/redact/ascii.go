package redact

import (
	"fmt"
	"unicode/utf16"
)

// ASCII escapes every character of JSON text outside ASCII, and DEL. Such
// characters occur only inside strings, where escapes are always allowed.
func ASCII(text []byte) []byte {
	out := make([]byte, 0, len(text)+1)
	for _, r := range string(text) {
		if r < 0x7f {
			out = append(out, byte(r))
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, u)
		}
	}
	return out
}
