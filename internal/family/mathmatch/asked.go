package mathmatch

import (
	"strings"
	"unicode/utf8"

	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

// Asked is what a question asks for: which units an answer may have.
type Asked struct {
	question *answer.Question
	units    map[string]bool // of the gold answers, folded
	anyUnit  bool            // neither question nor gold names a unit, so an answer may
	percent  bool
}

// ask reads a question, and the units of the gold answers.
func ask(q *answer.Question, units []string) *Asked {
	a := &Asked{question: q, units: map[string]bool{}, anyUnit: len(units) == 0 && !q.Counts()}
	for _, u := range units {
		a.units[u] = true
	}
	for _, w := range answer.Words(q.Text()) {
		name, ok := w.Value(vocabulary.Unit, q.In)
		if ok && utf8.RuneCountInString(w.Text) > 1 {
			a.anyUnit = false
		}
		a.percent = a.percent || name == "percent" || w.Sign() == '%' || strings.HasPrefix(w.Text, "percent")
	}
	return a
}

// allows reports whether a unit that is a sign may stand beside a value: the gold has it,
// the question has one of the signs or the word, or any will do.
func (a *Asked) allows(unit, signs, word string) bool {
	text := a.question.Text()
	return a.anyUnit || a.units[unit] || strings.ContainsAny(text, signs) || strings.Contains(strings.ToLower(text), word)
}

// changing are words that make another value of a number, wherever they stand.
const changing = vocabulary.Restrictive | vocabulary.Era

// isUnit reports whether the words beside a value are a unit that may stand there.
func (a *Asked) isUnit(text string) bool {
	n := 0
	for _, w := range a.question.Words(strings.NewReplacer(`\`, " ", "^", " ", "{", " ", "}", " ").Replace(text)) {
		if w.Kind != vocabulary.Letters {
			if c := w.Sign(); w.Kind == vocabulary.Sign && c != '/' && c != '.' && w.In(vocabulary.Unit) == 0 {
				return false
			}
			continue
		}
		n++
		unit := w.In(vocabulary.Unit) != 0
		switch {
		case unit && w.Text == "m", a.units[w.Text]: // meters, which may be millions elsewhere
		case w.In(changing) != 0:
			return false
		case w.Asked, forms[w.Text], unit && a.anyUnit:
		default:
			return false
		}
	}
	return n > 0 || strings.ContainsAny(text, "$€£¥°")
}

// forms are words of units that say nothing by themselves.
var forms = map[string]bool{"per": true, "square": true, "squared": true, "sq": true, "cubic": true, "cubed": true, "unit": true, "units": true} //nolint:gochecknoglobals // a constant
