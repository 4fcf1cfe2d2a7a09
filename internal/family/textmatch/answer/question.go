package answer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/vocabulary"
)

// A Question is what the rules need to know of what was asked. It never holds anything
// hidden.
type Question struct {
	In    vocabulary.Languages // whose vocabularies apply
	words map[string]bool      // folded
	runs  map[string]bool      // every two and three words in a row
	stems map[string][]string  // words by their first letters
	// denied are three words in a row that a negator stands before, or one word further:
	// "cannot be on the bottom", so that "not on the bottom" is the question's.
	denied map[string]bool
	text   string
	// counts says that it asks for a number of things.
	counts bool
}

// Ask reads a question and, where there is one, the format that it asks for.
func Ask(question, format string, in vocabulary.Languages) *Question {
	if in == 0 {
		in = vocabulary.Every
	}
	q := &Question{In: in, words: map[string]bool{}, runs: map[string]bool{}, stems: map[string][]string{}, denied: map[string]bool{}}
	q.text = Plain(Wide(question + "\n" + format))
	q.counts = vocabulary.Counts(lastAsked(Plain(Wide(question))), in)
	before, last := "", ""
	since := len(q.text) // the last negator, in words
	for _, w := range Words(q.text) {
		if w.Kind == vocabulary.Sign {
			continue
		}
		if since++; since == 3 || since == 4 {
			q.denied[before+" "+last+" "+w.Text] = true
		}
		if q.Is(w, vocabulary.Negator) {
			since = 0
		}
		for _, part := range append(strings.FieldsFunc(w.Text, isHyphenOrSpace), w.Text) {
			if !q.words[part] {
				q.words[part] = true
				q.stems[stemKey(part)] = append(q.stems[stemKey(part)], part)
			}
		}
		if last != "" {
			q.runs[last+" "+w.Text] = true
			q.runs[before+" "+last+" "+w.Text] = true
		}
		before, last = last, w.Text
	}
	return q
}

// lastAsked returns the last sentence of a text that ends in a question mark, or the last
// one.
func lastAsked(text string) string {
	last := ""
	for _, span := range textmatch.Sentences(text, false) {
		if s := text[span.Start:span.End]; strings.HasSuffix(s, "?") || !strings.HasSuffix(last, "?") {
			last = s
		}
	}
	return last
}

// Counts reports whether the question asks for a number of things, so that an answer has
// no unit, era or half of the day that it does not name.
func (q *Question) Counts() bool { return q.counts }

func isHyphenOrSpace(r rune) bool { return r == ' ' || r == '-' }

// Text is the question without typesetting.
func (q *Question) Text() string { return q.text }

// Has reports whether a folded word is one of the question, in any inflection.
func (q *Question) Has(w string) bool {
	return q.words[w] || q.words[strings.TrimSuffix(w, "'s")] ||
		slices.ContainsFunc(q.stems[stemKey(w)], func(other string) bool { return inflected(w, other) })
}

// HasPair reports whether two words stand next to each other in the question.
func (q *Question) HasPair(a, b string) bool { return q.runs[a+" "+b] }

// stemKey is the first three letters of a word.
func stemKey(w string) string {
	n := 0
	for i := range w {
		if n++; n > 3 {
			return w[:i]
		}
	}
	return w
}

// inflected reports whether two words may be forms of one: they begin alike, for four
// letters or for all but the last three of the longer.
func inflected(a, b string) bool {
	if a[0] >= '0' && a[0] <= '9' || b[0] >= '0' && b[0] <= '9' {
		return false
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	shared := utf8.RuneCountInString(a[:n])
	longer := max(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	shorter := min(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	return shared >= 3 && shared >= shorter-1 && shared >= longer-3 || shared >= 5 && shared >= longer-4
}

// A Word is a word of a text as the rules see it.
type Word struct {
	vocabulary.Word
	Text string // folded
	// Asked says that the question has the word; Excused that it stands among the same
	// words there, so that it denies and bounds nothing here.
	Asked, Excused bool
}

// Words returns the words of a plain text.
func Words(s string) []Word {
	found := vocabulary.Words(make([]vocabulary.Word, 0, len(s)/4+4), s)
	out := make([]Word, len(found))
	for i, w := range found {
		out[i] = Word{Word: w, Text: s[w.Start:w.End]}
		if w.Kind != vocabulary.Sign {
			out[i].Text = textmatch.FoldWord(out[i].Text)
		}
	}
	return out
}

// Words returns the words of a plain text, with what the question says of them.
func (q *Question) Words(s string) []Word {
	words := Words(s)
	var spoken []int
	for i := range words {
		if w := &words[i]; w.Kind != vocabulary.Sign {
			w.Asked = q.Has(w.Text) || w.Kind == vocabulary.Letters && q.hasParts(w.Text)
			spoken = append(spoken, i)
		}
	}
	for n, i := range spoken {
		at := func(k int) string {
			if k < 0 || k >= len(spoken) {
				return "\x00"
			}
			return words[spoken[k]].Text
		}
		adjective := q.Is(words[i], vocabulary.Wrong|vocabulary.Except) // "how many bad workers", "how many different ways"
		inRun := func(first int) bool { return q.runs[at(first)+" "+at(first+1)+" "+at(first+2)] }
		words[i].Excused = q.Is(words[i], vocabulary.Negator) && q.denied[at(n+1)+" "+at(n+2)+" "+at(n+3)] ||
			q.words[at(n)] && (adjective && q.HasPair(at(n), at(n+1)) || inRun(n-2) || inRun(n-1) || inRun(n))
	}
	return words
}

// hasParts reports whether every part of a word with hyphens or of a phrase is one of
// the question.
func (q *Question) hasParts(w string) bool {
	if !strings.ContainsFunc(w, isHyphenOrSpace) {
		return false
	}
	parts := strings.FieldsFunc(w, isHyphenOrSpace)
	return len(parts) > 1 && !slices.ContainsFunc(parts, func(p string) bool { return !q.Has(p) })
}

// Sign is the character of a sign, or 0.
func (w Word) Sign() rune {
	if w.Kind != vocabulary.Sign {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(w.Text)
	return r
}

// Is reports whether a word has one of the classes in a language of the question.
func (q *Question) Is(w Word, c vocabulary.Class) bool { return w.In(c)&q.In != 0 }

// OneOf reports whether the word is one of some signs.
func (w Word) OneOf(signs string) bool {
	return w.Kind == vocabulary.Sign && strings.ContainsRune(signs, w.Sign())
}

// Spoken counts the words that are no signs.
func Spoken(words []Word) (n int) {
	for _, w := range words {
		if w.Kind != vocabulary.Sign {
			n++
		}
	}
	return n
}
