package freeresponse

import (
	"iter"
	"strings"

	"securebench/internal/family/textmatch"
)

// lower is the lower-case form in which "u.s." is written out.
func lower(s string) string {
	return strings.ReplaceAll(textmatch.Lower(s), "u.s.", "united states")
}

// tokens yields the tokens of a text that went through lower: runs of a-z and
// 0-9 that are no stop words. A word that ends in n't is its stem and "not".
func tokens(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(s); {
			end := runEnd(s, i)
			if end == i {
				i++
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
			if !isStop(word) && !yield(word) || negated && !yield("not") {
				return
			}
		}
	}
}

// runEnd returns where the run of a-z and 0-9 that begins at s[i] ends.
func runEnd(s string, i int) int {
	for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= '0' && s[i] <= '9') {
		i++
	}
	return i
}

// contraction returns the length of the 't that s begins with, or 0.
func contraction(s string) int {
	for _, t := range [...]string{"'t", "’t"} {
		if strings.HasPrefix(s, t) && runEnd(s, len(t)) == len(t) {
			return len(t)
		}
	}
	return 0
}

// stem returns what a negated word says without its negation.
func stem(word string) string {
	switch word {
	case "can", "cannot":
		return "can"
	case "won":
		return "will"
	case "shan":
		return "shall"
	}
	return strings.TrimSuffix(word, "n")
}

// isStop reports whether a word is left out of the tokens. The list is the
// reference's less its negators, no and not.
func isStop(word string) bool {
	switch word {
	case "", "a", "an", "and", "are", "as", "at", "be", "because", "been", "before",
		"being", "by", "did", "do", "does", "due", "for", "from", "how", "if",
		"in", "into", "is", "it", "its", "of", "on", "or", "over", "that", "the",
		"their", "this", "through", "to", "was", "were", "what", "when", "where",
		"which", "who", "whom", "whose", "why", "with", "you", "your":
		return true
	}
	return false
}
