package freeresponse

import (
	"math/big"
	"strings"
	"unicode"

	"securebench/internal/family/textmatch"
)

// maxExtraWords is how many words a candidate may have more than an accepted
// answer that it contains as a span.
const maxExtraWords = 12

// f1 is the token F1 of two texts as a fraction: twice the tokens that they
// share over the tokens that they have together.
type f1 struct{ shared, total int }

// more reports whether f is greater than g.
func (f f1) more(g f1) bool {
	return f.shared*max(g.total, 1) > g.shared*max(f.total, 1)
}

func (f f1) reaches(threshold *big.Rat) bool {
	return big.NewRat(2*int64(f.shared), int64(max(f.total, 1))).Cmp(threshold) >= 0
}

func (f f1) float() float64 { return 2 * float64(f.shared) / float64(max(f.total, 1)) }

// A score says what a candidate matches; indexes are -1 for nothing.
type score struct {
	blank                  bool
	accepted, rejected     int
	acceptedF1, rejectedF1 f1 // the best of each kind
}

// score compares a candidate with every answer.
func (r *rubric) score(candidate string) score {
	low := lower(candidate)
	text := textmatch.Tidy(low)
	words := textmatch.CountWords(candidate, -1)
	counts, total := r.count(low)

	s := score{blank: text == "", accepted: -1}
	for i, a := range r.accepted {
		if words <= a.words+maxExtraWords && textmatch.HasPhrase(text, a.text) {
			s.accepted = i
			break
		}
	}
	all := func(phrase) int { return total }
	best, top := bestOf(r.accepted, counts, all)
	s.acceptedF1 = top
	if s.accepted < 0 && s.acceptedF1.reaches(r.threshold) {
		s.accepted = best
	}
	_, s.rejectedF1 = bestOf(r.rejected, counts, all)
	s.rejected = r.rejectedBy(text, textmatch.Tidy(visible(low)), counts)
	return s
}

// visible returns s without invisible characters.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
}

// count returns how often each word of the rubric occurs among the tokens of
// a text, and how many tokens there are.
func (r *rubric) count(low string) (counts map[string]int, total int) {
	counts = map[string]int{}
	for t := range tokens(low) {
		total++
		if r.vocabulary[t] {
			counts[t]++
		}
	}
	return counts, total
}

// bestOf returns the first answer with the greatest F1, or -1 where all are 0.
// size says how many tokens of the candidate count against an answer.
func bestOf(answers []phrase, counts map[string]int, size func(phrase) int) (int, f1) {
	best, top := -1, f1{}
	for i, a := range answers {
		f := f1{total: size(a) + a.tokens}
		for t, n := range a.counts {
			f.shared += min(n, counts[t])
		}
		if f.more(top) {
			best, top = i, f
		}
	}
	return best, top
}

// rejectedBy returns the rejected answer that the candidate matches, or -1.
// A rejected span counts without the invisible characters that may hide it.
// By F1, what could dilute it is left out on both sides of the comparison: words
// that are in no answer, and against a rejected answer also the words of other
// rejected ones and repetitions.
func (r *rubric) rejectedBy(text, visible string, counts map[string]int) int {
	for i, a := range r.rejected {
		if textmatch.HasPhrase(text, a.text) || visible != text && textmatch.HasPhrase(visible, a.text) {
			return i
		}
	}
	known := 0
	for _, n := range counts {
		known += n
	}
	_, affirmed := bestOf(r.accepted, counts, func(phrase) int { return known })
	i, denied := bestOf(r.rejected, counts, func(a phrase) int {
		n := 0
		for t, c := range counts {
			n += min(c, max(a.counts[t], r.affirmed[t]))
		}
		return n
	})
	if affirmed.more(denied) || !denied.reaches(r.threshold) {
		return -1
	}
	return i
}
