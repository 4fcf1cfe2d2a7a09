package vocabulary

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// countings are the phrases that ask for a number of things, by the bit of their language,
// in spaces where their script has them.
var countings = sync.OnceValue(func() (phrases [len(tags)][]string) { //nolint:gochecknoglobals // read once
	for line := range read("counting.tsv") {
		tag, phrase, _ := strings.Cut(line, "\t")
		first, _ := utf8.DecodeRuneInString(phrase)
		if script := scriptOf(first); script == alphabetic || script == arabic {
			if phrase = " " + phrase; !strings.HasSuffix(phrase, "'") {
				phrase += " "
			}
		}
		for i, t := range tags {
			if t == tag {
				phrases[i] = append(phrases[i], phrase)
			}
		}
	}
	return phrases
})

// Counts reports whether a question asks how many things there are, so that its answer has
// no unit but one that it names.
func Counts(question string, in Languages) bool {
	spaced := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsMark(r) || isApostrophe(r) {
			return unicode.ToLower(r)
		}
		return ' '
	}, norm.NFC.String(question))
	spaced = " " + strings.Join(strings.Fields(spaced), " ") + " "
	for i, phrases := range countings() {
		if in&(1<<i) != 0 && slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(spaced, p) }) {
			return true
		}
	}
	return false
}
