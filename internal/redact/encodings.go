package redact

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// encodings lists the forms of a secret to look for, without duplicates.
func encodings(value []byte) []string {
	s := string(value)
	out := []string{s, reversed(value), hex.EncodeToString(value), strings.ToUpper(hex.EncodeToString(value))}
	out = append(out, base64Forms(value)...)
	out = append(out, percentForms(s)...)
	if utf8.Valid(value) {
		out = append(out, reversedRunes(s))
		out = append(out, jsonForms(s)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func reversed(b []byte) string {
	c := slices.Clone(b)
	slices.Reverse(c)
	return string(c)
}

func reversedRunes(s string) string {
	c := []rune(s)
	slices.Reverse(c)
	return string(c)
}

// base64Forms lists the forms of the value inside base64 of a longer text, which
// shifts it by 0, 1 or 2 bytes. The characters at the edges depend on the
// neighbouring bytes and are left out.
func base64Forms(value []byte) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		out = append(out, enc.EncodeToString(value)) // alone, with its last bits
		for shift := range 3 {
			text := enc.EncodeToString(append(make([]byte, shift), value...))
			first := (8*shift + 5) / 6
			last := 8 * (shift + len(value)) / 6
			out = append(out, text[first:last])
		}
	}
	return out
}

// percentForms lists the value percent-encoded: as in a query, as in a path, with
// every byte escaped, and with every reserved byte escaped.
func percentForms(s string) []string {
	out := []string{url.QueryEscape(s), url.PathEscape(s)}
	var all, strict strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&all, "%%%02X", c)
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("-._~", c) >= 0 {
			strict.WriteByte(c)
		} else {
			fmt.Fprintf(&strict, "%%%02X", c)
		}
	}
	out = append(out, all.String(), strict.String())
	for _, f := range slices.Clone(out) {
		out = append(out, lowerAfter(f, "%", 2))
	}
	return out
}

// jsonForms lists the value inside JSON strings as common encoders write it.
func jsonForms(s string) []string {
	var out []string
	for _, special := range []string{"", "/", "<>&\u2028\u2029", "<>&'\u2028\u2029"} {
		for _, ascii := range []bool{false, true} {
			f := jsonEscape(s, special, ascii)
			out = append(out, f, upperAfter(f, `\u`, 4))
		}
	}
	return out
}

// jsonEscape escapes what JSON requires, the characters in special and, if ascii
// is set, DEL and everything outside ASCII.
func jsonEscape(s, special string, ascii bool) string {
	var b strings.Builder
	for _, r := range s {
		short := strings.IndexRune("\"\\\b\f\n\r\t", r)
		switch {
		case short >= 0:
			b.WriteByte('\\')
			b.WriteByte(`"\bfnrt`[short])
		case r == '/' && strings.Contains(special, "/"):
			b.WriteString(`\/`)
		case r < ' ' || ascii && r == 0x7f || strings.ContainsRune(special, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case ascii && r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		case ascii && r > 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func lowerAfter(s, prefix string, n int) string { return mapAfter(s, prefix, n, strings.ToLower) }
func upperAfter(s, prefix string, n int) string { return mapAfter(s, prefix, n, strings.ToUpper) }

// mapAfter applies f to the n bytes after every prefix.
func mapAfter(s, prefix string, n int, f func(string) string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, prefix)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		k := min(n, len(rest))
		b.WriteString(prefix + f(rest[:k]))
		s = rest[k:]
	}
}
