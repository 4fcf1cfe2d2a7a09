package freeresponse

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
)

// lower is the lower-case form in which "u.s." is written out and n't with one
// of the rarer apostrophes (U+02BC, U+FF07) has the usual one.
func lower(s string) string {
	return spellings.Replace(textmatch.Lower(s))
}

var spellings = strings.NewReplacer("u.s.", "united states", "nʼt", "n’t", "n＇t", "n’t") //nolint:gochecknoglobals // a constant

// tokens yields the tokens of a text that went through lower: runs of a-z and
// 0-9 that are not stop words. Letters, marks and numbers beyond ASCII and
// invisible characters belong to the run that they touch, so that a look-alike
// or a hidden character makes another token; alone they are
// not tokens. A word that ends in n't is its stem and "not".
func tokens(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(s); {
			end, token := run(s, i)
			if !token {
				i = max(end, i+1)
				continue
			}
			word := s[i:end]
			i = end
			negated := word == "cannot"
			if next := contraction(s[end:]); next > 0 && strings.HasSuffix(word, "n") {
				negated, i = true, end+next
			}
			if negated {
				word = stem(word)
			}
			if word != "" && !stops.Has(word) && !yield(word) || negated && !yield("not") {
				return
			}
		}
	}
}

// run returns where the run that begins at s[i] ends, and whether it is a token:
// whether a-z or 0-9 is in it.
func run(s string, i int) (end int, token bool) {
	for j, r := range s[i:] {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			token = true
		case r < utf8.RuneSelf || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.Cf):
			return i + j, token
		}
	}
	return len(s), token
}

// contraction returns the length of the 't that s begins with, or 0.
func contraction(s string) int {
	for _, t := range [...]string{"'t", "’t"} {
		if rest, ok := strings.CutPrefix(s, t); ok {
			if end, _ := run(rest, 0); end == 0 {
				return len(t)
			}
		}
	}
	return 0
}

// stem returns what a negated word says without its negation.
func stem(word string) string {
	if s, ok := stems.Value(word); ok {
		return s
	}
	return strings.TrimSuffix(word, "n")
}

const (
	stems textmatch.List = " can=can cannot=can won=will shan=shall "
	// stops are words that are left out of the tokens: the reference's list without its
	// negators, no and not.
	stops textmatch.List = " a an and are as at be because been before being by did do does due for from how if in into" +
		" is it its of on or over that the their this through to was were what when where which who whom whose why with you your "
)
