package vocabulary

import (
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// countings are the phrases that ask for a number of things, by the bit of their language.
var countings = sync.OnceValue(func() (phrases [len(tags)][]string) { //nolint:gochecknoglobals // read once
	for line := range read("counting.tsv") {
		tag, phrase, _ := strings.Cut(line, "\t")
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
		for _, p := range phrases {
			first := []rune(p)[0]
			if scriptOf(first) == alphabetic || scriptOf(first) == arabic {
				if p = " " + p; !strings.HasSuffix(p, "'") {
					p += " "
				}
			}
			if in&(1<<i) != 0 && strings.Contains(spaced, p) {
				return true
			}
		}
	}
	return false
}
