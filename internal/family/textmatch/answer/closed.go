package answer

import (
	"strings"

	"securebench/internal/family/textmatch/vocabulary"
)

// Closed reports whether every word is known to change nothing: harmless in a language
// that all of them share, of a class of also, or of the question. Punctuation changes
// nothing; digits must be the question's.
func (q *Question) Closed(words []Word, also vocabulary.Class) bool {
	in := q.In
	for _, w := range words {
		if w.Excused {
			continue
		}
		restricts := w.In(vocabulary.Restrictive&^also) & q.In
		switch w.Kind {
		case vocabulary.Sign:
			if !isPunctuation(w.Sign()) || restricts != 0 {
				return false
			}
			continue
		case vocabulary.Digits:
			if !w.Asked {
				return false
			}
			continue
		}
		if w.Asked && restricts == 0 {
			continue
		}
		in &= w.In(vocabulary.Harmless | also)
		if in &^= restricts; in == 0 {
			return false
		}
	}
	return true
}

// isPunctuation reports whether a sign only punctuates.
func isPunctuation(c rune) bool {
	return strings.ContainsRune(" .,;:!\"'`’‘“”«»()[]{}【】「」『』《》〈〉*_|…。、，；：！—–-=→⇒∴✅✓✔☑➡👉\ufe0f", c)
}

// Opposes returns the first word that denies, doubts, bounds or multiplies what stands
// between before and after, or nil. Words that stand so in the question do not.
func (q *Question) Opposes(before, after []Word) *Word {
	b, a := opposing(before), opposing(after)
	w, ok := vocabulary.Denying(b, a, vocabulary.Restrictive, q.In)
	if !ok {
		return nil
	}
	for _, side := range [...][]Word{before, after} {
		for i := range side {
			if side[i].Start == w.Start && side[i].End == w.End {
				return &side[i]
			}
		}
	}
	return &Word{Word: w}
}

// opposing returns the words that may oppose.
func opposing(words []Word) []vocabulary.Word {
	out := make([]vocabulary.Word, 0, len(words))
	for _, w := range words {
		if !w.Excused {
			out = append(out, w.Word)
		}
	}
	return out
}

// Around reports whether what surrounds a form in its sentence leaves what it encloses
// as it is, and which word does not. What precedes the last comma before the form, or a
// conclusion, is another clause; what precedes the last link is no part of the value, so
// that it multiplies and bounds nothing there.
func (q *Question) Around(before, after string) (opposing *Word) {
	b, a := q.Words(before), q.Words(after)
	c := len(b) - 1
	for c >= 0 && !(parts(b[c].Sign()) && b[c].Sign() != ':') && !q.has(b[c], vocabulary.Conclusion) {
		c--
	}
	clause := b[c+1:]
	link := len(clause) - 1
	for link >= 0 && !q.has(clause[link], vocabulary.Link) {
		link--
	}
	for i := range clause[:link+1] {
		w := &clause[i]
		if factor := w.In(vocabulary.Scale | vocabulary.Limit | vocabulary.Approx); factor != 0 && w.In(vocabulary.Negator|vocabulary.Hedge|vocabulary.Or|vocabulary.Wrong|vocabulary.Refusal) == 0 {
			w.Excused = true
		}
	}
	for i, w := range a {
		if q.has(w, vocabulary.Reason) {
			a = a[:i]
			break
		}
	}
	return q.Opposes(clause, a)
}

// Explains reports whether what follows a value after a comma, a dash or the like only
// explains it: a reason may say anything, the rest must not oppose.
func (q *Question) Explains(words []Word) bool {
	for len(words) > 0 && (words[0].Kind == vocabulary.Sign || q.has(words[0], vocabulary.And|vocabulary.Conclusion)) {
		words = words[1:]
	}
	if len(words) == 0 {
		return true
	}
	return q.has(words[0], vocabulary.Reason) || q.Opposes(nil, words) == nil
}

// Retracts reports whether a sentence begins as one that takes back what was said before
// it, or offers something else.
func (q *Question) Retracts(words []Word) bool {
	for _, w := range words[:min(len(words), 3)] {
		if w.Kind == vocabulary.Sign {
			if strings.ContainsRune(",.;", w.Sign()) {
				return false
			}
			continue
		}
		if q.has(w, vocabulary.Retract|vocabulary.Or|vocabulary.Hedge|vocabulary.Refusal) && !q.has(w, vocabulary.Frame) {
			return true
		}
		if q.has(w, vocabulary.No|vocabulary.Negator|vocabulary.Wrong) {
			return true
		}
		return false
	}
	return false
}
