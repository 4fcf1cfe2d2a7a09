package answer

import (
	"slices"
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
		restricts := q.Is(w, vocabulary.Restrictive&^also)
		switch {
		case w.Kind == vocabulary.Sign && isPunctuation(w.Sign()) && !restricts,
			w.Kind == vocabulary.Digits && w.Asked, w.Kind == vocabulary.Letters && w.Asked && !restricts:
			continue
		case w.Kind != vocabulary.Letters:
			return false
		}
		if in = w.Permits(also, in); in == 0 {
			return false
		}
	}
	return true
}

// isPunctuation reports whether a sign only punctuates.
func isPunctuation(c rune) bool {
	return IsDash(c) || strings.ContainsRune(" .,;:!\"'`’‘“”«»()[]{}【】「」『』《》〈〉*_|…。、，；：！،؛—–-=→⇒∴✅✓✔☑➡👉\ufe0f", c)
}

// Opposes reports whether a word denies, doubts, bounds or multiplies what stands between
// before and after. Words that stand so in the question do not.
func (q *Question) Opposes(before, after []Word) bool {
	return q.denies(before, after, vocabulary.Restrictive)
}

// denies is Opposes for the words of some classes.
func (q *Question) denies(before, after []Word, c vocabulary.Class) bool {
	_, ok := vocabulary.Denying(opposing(before), opposing(after), c, q.In)
	return ok
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

// Around reports whether what surrounds a form in its sentence changes or denies what it
// encloses. What precedes the last comma before the form, or a
// conclusion, is another clause; what precedes the last link is no part of the value, so
// that it multiplies and bounds nothing there.
func (q *Question) Around(before, after string) bool {
	b, a := q.Words(before), q.Words(after)
	c := len(b) - 1
	for c >= 0 && (!parts(b[c].Sign()) || b[c].Sign() == ':') && !q.Is(b[c], vocabulary.Conclusion) {
		c--
	}
	clause := b[c+1:]
	link := len(clause) - 1
	for link >= 0 && !q.Is(clause[link], vocabulary.Link) {
		link--
	}
	for i := range clause[:link+1] {
		w := &clause[i]
		if factor := w.In(vocabulary.Scale | vocabulary.Limit | vocabulary.Approx); factor != 0 && w.In(vocabulary.Negator|vocabulary.Hedge|vocabulary.Or|vocabulary.Wrong|vocabulary.Refusal) == 0 {
			w.Excused = true
		}
	}
	for n := len(clause); n > link+1; n-- {
		w := clause[n-1]
		unknown := w.Kind == vocabulary.Letters && len(w.Meanings) == 0 && !w.Asked
		if !unknown && !q.Is(w, vocabulary.Frame) && w.Sign() != '$' || q.Is(w, vocabulary.Restrictive|vocabulary.Link) {
			clause = clause[:n] // what stands before articles and unknown words is beside the form
			break
		}
	}
	if len(a) > 0 && q.Is(a[0], vocabulary.Scale) && q.HasPair("many", a[0].Text) {
		a[0].Excused = true // "How many pairs …?" counts them
	}
	if i := slices.IndexFunc(a, func(w Word) bool { return q.Is(w, vocabulary.Reason) }); i >= 0 {
		a = a[:i]
	}
	return q.Opposes(clause, a)
}

// Explains reports whether what follows a value after a comma, a dash or the like only
// explains it: a reason may say anything, the rest must not oppose.
func (q *Question) Explains(words []Word) bool {
	for len(words) > 0 && (words[0].Kind == vocabulary.Sign || q.Is(words[0], vocabulary.And|vocabulary.Conclusion)) {
		words = words[1:]
	}
	if len(words) == 0 {
		return true
	}
	return q.Is(words[0], vocabulary.Reason) || !q.Opposes(nil, words)
}

// Retracts reports whether a sentence begins as one that takes back what was said before
// it, or offers something else.
func (q *Question) Retracts(words []Word) bool {
	for _, w := range words[:min(len(words), 3)] {
		if w.Kind == vocabulary.Sign {
			if w.OneOf(",.;") {
				return false
			}
			continue
		}
		return q.Is(w, vocabulary.Retract|vocabulary.Or|vocabulary.Hedge|vocabulary.Refusal) && !q.Is(w, vocabulary.Frame) ||
			q.Is(w, vocabulary.No|vocabulary.Negator|vocabulary.Wrong)
	}
	return false
}

// Denies reports whether a sentence says of what was said before that it is wrong.
func (q *Question) Denies(words []Word) bool {
	return slices.ContainsFunc(words, func(w Word) bool {
		return !w.Excused && !w.Asked && w.restricts(q, vocabulary.Wrong|vocabulary.Refusal)
	})
}

// maxCourtesy is the most words of a sentence that only takes leave or opens a reply.
const maxCourtesy = 24

// Courteous reports whether a sentence only opens or closes a reply: its first words are
// those of a courtesy, and it holds no number.
func (q *Question) Courteous(words []Word) bool {
	if len(words) > maxCourtesy || slices.ContainsFunc(words, func(w Word) bool { return w.Kind == vocabulary.Digits }) {
		return false
	}
	for len(words) > 1 && words[0].Kind == vocabulary.Sign {
		words = words[1:]
	}
	phrase := ""
	for _, w := range words[:min(len(words), 3)] {
		phrase += w.Text + " "
	}
	return slices.ContainsFunc(courtesies, func(c string) bool { return strings.HasPrefix(phrase, c+" ") })
}

// courtesies are the words with which a sentence begins that opens or closes a reply.
var courtesies = []string{"hope", "i hope", "let me know", "please let", "feel free", "please feel", "if you have", "if you need", "if you'd", //nolint:gochecknoglobals // a constant
	"if you would", "is there anything", "do you", "would you", "thank", "thanks", "you're welcome", "good luck", "happy to", "glad to",
	"have a", "cheers", "enjoy", "sure", "certainly", "of course", "absolutely", "great question", "good question", "okay", "ok"}
