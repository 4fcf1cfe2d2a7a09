package textmatch

import (
	"strings"
	"unicode/utf8"
)

// FindBoxed returns the number that a box states. What stands before the box in
// its clause, back to a verb or an equals sign, and what follows it in the
// sentence are read with it: -\boxed{25} is -25 and \boxed{25} million is none.
func (q *Question) FindBoxed(p Passage, loose bool) (Number, Finding) {
	before, after := Plain(p.Before), Plain(p.After)
	n, finding := q.FindNumber(p.Text, loose)
	if finding != OneNumber {
		return n, finding
	}
	clause := LastClause(before)
	for _, w := range Words(clause, -1) {
		if IsDoubt(w) || isSoftDoubt(w) && !q.Has(w) {
			return Number{}, UnclearNumber
		}
	}
	left, ok := boxTail(clause)
	if !ok || after != "" && isDigit(rune(after[0])) {
		return Number{}, UnclearNumber
	}
	gap := func(apart bool) string {
		if apart {
			return " "
		}
		return ""
	}
	left += gap(left != "" && endsApart(p.Before))
	right := gap(startsApart(p.After)) + after
	return q.findNumber(left+p.Text+right, len(left), len(left)+len(p.Text), loose)
}

// endsApart reports whether a space, and nothing but delimiters of a formula
// behind it, ends s.
func endsApart(s string) bool {
	s = strings.TrimRight(s, `$(\[{`)
	return s != strings.TrimRight(s, " ")
}

func startsApart(s string) bool {
	s = strings.TrimLeft(s, `$)\]}`)
	return s != strings.TrimLeft(s, " ")
}

// boxTail returns what of a clause before a box belongs to it: what follows its
// last equals sign, verb or number. It reports false where a number would touch
// the box.
func boxTail(clause string) (string, bool) {
	for i := len(clause) - 1; i > 0; i-- {
		if clause[i] == '=' && !strings.ContainsRune("!<>~/", rune(clause[i-1])) {
			clause = clause[i+1:]
			break
		}
	}
	for {
		_, after, word := FindWord(clause, "is", "are", "was", "were", "be", "equals", "get", "gives", "have", "obtain", "becomes")
		if word == "" {
			break
		}
		clause = after
	}
	i := strings.LastIndexFunc(clause, isDigit)
	if i < 0 {
		return clause, true
	}
	clause = clause[i+1:]
	r, _ := utf8.DecodeRuneInString(clause)
	return clause, CountWords(clause, 1) > 0 && !isLetterOrNumber(r)
}

// BeginsWithNumber reports whether a text begins with a number that does not
// number a heading.
func BeginsWithNumber(s string) bool {
	ts := tokenize(s)
	for i, t := range ts.list {
		switch c := t.sign(); {
		case t.kind == aNumber:
			if i+1 == len(ts.list) {
				return true
			}
			next := ts.list[i+1]
			counts := next.tight && (next.text == "." || next.text == ")" || next.text == ":")
			return !counts || i+2 == len(ts.list)
		case t.kind == aSign && (isSign(c) || isCurrency(c) || strings.ContainsRune("*_`(\"", c)):
		default:
			return false
		}
	}
	return false
}
