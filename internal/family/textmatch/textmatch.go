// Package textmatch holds the text rules that multiple_choice, short_answer and
// free_response share: one normal form, words and spans, sentences, text without
// markup, the English words that decide whether a text states an answer, and the
// session that leaves the decision to a [Scorer].
//
// The normal form of a text is Unicode NFC. Nothing else is folded: zero-width
// and bidirectional characters stay, a letter of another alphabet or width is
// another letter, and compatibility characters keep their identity. On top of
// that [Normalize] does what the reference does: Python's str.strip and
// str.lower, one space for every run of white space, and quotes and closing
// punctuation removed from both ends.
//
// Candidates are only ever data: no byte of one reaches a pattern, a format or
// a template. Every function here takes time linear in its input.
package textmatch

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxExcerpt is the maximum size of a candidate in metadata, in bytes.
const MaxExcerpt = 1024

// Edges is what [Normalize] removes from both ends of a text.
const Edges = " \t\r\n\"'`.,;:"

// Markup may stand between the parts of a marked answer.
const Markup = " *_`"

// NFC returns s in the normal form that every comparison uses.
func NFC(s string) string { return norm.NFC.String(s) }

// Normalize returns the form in which answers are compared: [Lower], then
// [Tidy]. It is idempotent. The result is empty if nothing else is in the text.
func Normalize(s string) string { return Tidy(Lower(s)) }

// Tidy collapses white space and removes spaces, quotes, backticks and . , ; :
// from both ends.
func Tidy(s string) string { return strings.Trim(Collapse(s), Edges) }

// Lower returns s in NFC and lower case as Python's str.lower has it: İ becomes
// i and a combining dot, ß stays. The two forms of a small sigma, which Python
// chooses by place, are one letter here.
func Lower(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(s)
	}
	s = NFC(s)
	var b strings.Builder
	b.Grow(len(s) + len(s)/2)
	marks := false
	for _, r := range s {
		switch r {
		case 'İ':
			b.WriteString("i\u0307")
		case 'Σ', 'ς':
			b.WriteRune('σ')
		default:
			marks = marks || unicode.Is(unicode.M, r)
			b.WriteRune(unicode.ToLower(r))
		}
	}
	if !marks {
		return b.String()
	}
	// A mark that no capital takes may compose with the small letter.
	return NFC(b.String())
}

// IsSpace reports what Python's str.isspace reports: Unicode white space and
// the four ASCII separators.
func IsSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

// IsWordRune reports whether r is part of a word: a letter, a combining mark,
// a number of any script, or an underscore.
func IsWordRune(r rune) bool { return r == '_' || IsLetterOrNumber(r) }

// IsLetterOrNumber reports whether r is a letter, a mark or a number.
func IsLetterOrNumber(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.N)
}

// Strip removes white space from both ends.
func Strip(s string) string { return strings.TrimFunc(s, IsSpace) }

// Collapse strips s and turns every run of white space into one space.
func Collapse(s string) string {
	s = Strip(s)
	if !strings.ContainsFunc(s, func(r rune) bool { return r != ' ' && IsSpace(r) }) && !strings.Contains(s, "  ") {
		return s
	}
	var b strings.Builder // a list of the words can be much larger than the text
	b.Grow(len(s))
	for word := range strings.FieldsFuncSeq(s, IsSpace) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

// IsLineBreak reports what ends a line for Python's str.splitlines.
func IsLineBreak(r rune) bool {
	return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r)
}

// Excerpt returns s stripped, cut to at most [MaxExcerpt] bytes between two
// characters; an ellipsis marks the cut.
func Excerpt(s string) string {
	s = Strip(s)
	if len(s) <= MaxExcerpt {
		return s
	}
	const mark = "…"
	return strings.ToValidUTF8(s[:MaxExcerpt-len(mark)], "") + mark
}

// IsDigit reports whether r is an ASCII digit.
func IsDigit(r rune) bool { return r >= '0' && r <= '9' }

// DigitsEnd returns where the ASCII digits that begin at s[i] end.
func DigitsEnd(s string, i int) int {
	for i < len(s) && IsDigit(rune(s[i])) {
		i++
	}
	return i
}
