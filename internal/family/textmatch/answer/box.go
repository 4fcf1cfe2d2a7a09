package answer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/lazyregexp"
)

// displays are the formulas between delimiters, of two bytes each, that may take lines.
var displays = [...]*lazyregexp.Regexp{ //nolint:gochecknoglobals // a constant
	lazyregexp.New(`(?s)\\\[.*?\\\]`), lazyregexp.New(`(?s)\\\(.*?\\\)`), lazyregexp.New(`(?s)\$\$.*?\$\$`),
}

// joinFormulas replaces the line breaks inside displayed formulas by spaces.
func joinFormulas(s string) string {
	out := []byte(s)
	var ends []int
	for _, display := range displays {
		for _, at := range display.FindAllStringIndex(s, -1) {
			start, end := at[0], at[1]
			if end-start > maxFormula {
				continue
			}
			for k := start; k < end; k++ {
				if out[k] < utf8.RuneSelf && textmatch.IsLineBreak(rune(out[k])) {
					out[k] = ' '
				}
			}
			next, _ := utf8.DecodeRuneInString(strings.TrimLeft(s[end:], " "))
			if s[start+1] != '(' && unicode.IsUpper(next) {
				ends = append(ends, end)
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

// maxFormula is the most bytes of a formula whose lines are joined, with its delimiters.
const maxFormula = 4100

// A box is a \boxed{…} in a text.
type box struct{ start, open, end int } // of the whole; its content is s[open:end-1]

// findBoxes returns the boxes of s that are closed and lie in no other.
func findBoxes(s string) []box {
	var out []box
	var braces []box
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if begun := boxStart.FindString(s[i:]); begun != "" {
				braces = append(braces, box{start: i, open: i + len(begun)})
				i += len(begun) - 1
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

// boxStart is how a box begins. In some texts every backslash is twice.
var boxStart = lazyregexp.New(`^\\\\?(?:boxed|fbox) {0,7}\{`)
