package answer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
)

// joinFormulas replaces the line breaks inside displayed formulas by spaces.
func joinFormulas(s string) string {
	out := []byte(s)
	var ends []int
	for _, pair := range [...][2]string{{`\[`, `\]`}, {`\(`, `\)`}, {"$$", "$$"}} {
		for at := 0; ; {
			i := strings.Index(s[at:], pair[0])
			if i < 0 {
				break
			}
			from := at + i + len(pair[0])
			j := strings.Index(s[from:], pair[1])
			if j < 0 {
				break
			}
			if at = from + j + len(pair[1]); j > maxFormula {
				continue
			}
			for k := from; k < from+j; k++ {
				if out[k] < utf8.RuneSelf && textmatch.IsLineBreak(rune(out[k])) {
					out[k] = ' '
				}
			}
			if r, _ := utf8.DecodeRuneInString(strings.TrimLeft(s[at:], " ")); pair[0] != `\(` && unicode.IsUpper(r) {
				ends = append(ends, at)
			}
		}
	}
	slices.Sort(ends)
	var b strings.Builder
	at := 0
	for _, end := range ends {
		b.Write(out[at:end])
		b.WriteByte('\n') // a sentence after a displayed formula
		at = end
	}
	b.Write(out[at:])
	return b.String()
}

// maxFormula is the most bytes of a formula whose lines are joined.
const maxFormula = 4096

// A box is a \boxed{…} in a text.
type box struct{ start, open, end int } // of the whole; its content is s[open:end-1]

// findBoxes returns the boxes of s that are closed and lie in no other.
func findBoxes(s string) []box {
	var out []box
	var braces []box
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if n := boxStart(s[i:]); n > 0 {
				braces = append(braces, box{start: i, open: i + n})
				i += n - 1
			} else {
				i++ // an escaped brace does not count
			}
		case '{':
			braces = append(braces, box{start: -1})
		case '}':
			if len(braces) == 0 {
				continue
			}
			b := braces[len(braces)-1]
			braces = braces[:len(braces)-1]
			if b.start < 0 {
				continue
			}
			for len(out) > 0 && out[len(out)-1].start > b.start {
				out = out[:len(out)-1]
			}
			b.end = i + 1
			out = append(out, b)
		}
	}
	return out
}

// boxStart returns the length of the \boxed{ that s begins with, or 0. In some texts every
// backslash is twice.
func boxStart(s string) int {
	for _, command := range [...]string{`\boxed`, `\fbox`, `\\boxed`, `\\fbox`} {
		if rest, ok := strings.CutPrefix(s, command); ok && strings.HasPrefix(strings.TrimLeft(rest[:min(len(rest), 8)], " "), "{") {
			return len(command) + strings.IndexByte(rest, '{') + 1
		}
	}
	return 0
}
