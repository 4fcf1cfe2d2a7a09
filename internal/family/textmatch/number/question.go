package number

import (
	"strings"

	"securebench/internal/family/textmatch"
)

// A Question is what the rules need to know of what was asked. It never holds
// anything hidden. The zero value is a question that says nothing.
type Question struct {
	words    map[string]bool
	numbers  map[string]bool // its numbers, as fractions
	asked    map[string]bool // words of what is asked that no number stands before
	currency map[rune]bool
	money    bool // speaks of money
}

// NewQuestion reads a question and, where there is one, the format that it asks
// for.
func NewQuestion(question, format string) *Question {
	q := &Question{words: map[string]bool{}, numbers: map[string]bool{}, asked: map[string]bool{}, currency: map[rune]bool{}}
	all := textmatch.Plain(textmatch.NFC(question + "\n" + format))
	for _, w := range textmatch.Words(all, -1) {
		if textmatch.CountWords(w, 1) > 0 {
			q.words[w] = true
			q.money = q.money || money.Has(textmatch.Singular(w))
		}
		if c := currencyOf(w); c != 0 {
			q.currency[c] = true
		}
	}
	for _, t := range tokenize(all).list {
		if t.kind == aNumber {
			if n, ok := t.literal.number(); ok {
				q.numbers[n.value.RatString()] = true
			}
		}
		if v, ok := textmatch.NumberValue(t.text); ok {
			q.numbers[v] = true
		}
		if t.kind == aSign && IsCurrency(t.sign()) {
			q.currency[t.sign()] = true
		}
	}
	for _, s := range asking(textmatch.Plain(textmatch.NFC(question))) {
		q.ask(s)
	}
	q.ask(textmatch.Plain(textmatch.NFC(format)))
	return q
}

// asking returns the sentences of a text that ask: those with a question mark,
// those that begin with a command, and the last.
func asking(text string) []string {
	var out []string
	spans := textmatch.Sentences(text, false)
	for i, p := range spans {
		s := text[p.Start:p.End]
		first := append(textmatch.Words(s, 1), "")[0]
		if i == len(spans)-1 || strings.HasSuffix(s, "?") || commands.Has(first) {
			out = append(out, s)
		}
	}
	return out
}

// ask notes the words of a sentence that no number stands before: in "what
// percentage of 50 % …" a percentage is asked for, in "10 % of what" none.
func (q *Question) ask(s string) {
	last := token{}
	for _, t := range tokenize(s).list {
		_, counted := textmatch.NumberValue(last.text)
		same := last.text == "same" || last.text == "this" || last.text == "that"
		if w := textmatch.Singular(t.text); last.kind != aNumber && !counted && !same {
			q.asked[w] = true
		}
		last = t
	}
}

// Has reports whether a word of [textmatch.Words], without the 's of a possessive, occurs in
// the question.
func (q *Question) Has(word string) bool {
	return q.words[word] || q.words[strings.TrimSuffix(word, "'s")]
}

// asks reports whether the question asks for an answer in the unit or multiple
// that w names.
func (q *Question) asks(w string) bool { return q.asked[textmatch.Singular(w)] }

// asksPercent reports whether the question asks for a percentage.
func (q *Question) asksPercent() bool {
	return q.asked["percent"] || q.asked["percentage"] || q.asked["%"]
}

// allows reports whether an answer to the question may carry a currency: one
// that it names, or any where it speaks of money and names none.
func (q *Question) allows(currency rune) bool {
	return q.currency[currency] || len(q.currency) == 0 && q.money
}
