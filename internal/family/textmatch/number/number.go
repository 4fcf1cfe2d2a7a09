// Package number reads exact decimals: a text that is one, and the one that a
// sentence states. Words, signs and units next to a number decide whether it is
// stated as it stands; the question that was asked decides some of them.
package number

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
)

// Bounds on a number that is compared. They are checked before it is
// converted, so a short text cannot ask for a huge one.
const (
	MaxDigits   = 400 // digits before the exponent
	MaxExponent = 400 // absolute value of the exponent
)

// A Number is an exact decimal with the signs that were written next to it.
type Number struct {
	value    *big.Rat
	currency rune // 0 when there is none
	percent  bool
}

// A Finding says what [Question.FindNumber] found.
type Finding uint8

// The findings.
const (
	None    Finding = iota // no number at all
	One                    // one number is stated, and nothing makes it unclear
	Several                // more than one
	Unclear                // one that something next to it changes or may change
	InWords                // none but in words
)

// Parse reads a text that is a number as a whole: an optional sign, thousands
// groups, a fraction, an exponent, a currency sign on either side or a percent
// sign. Quotes around it and . , ; : after it are ignored. It reports false for
// anything else, and for what exceeds [MaxDigits] or [MaxExponent].
func Parse(s string) (Number, bool) {
	s = strings.TrimRight(strings.TrimLeft(textmatch.Collapse(textmatch.NFC(s)), "\"'`"), textmatch.Edges)
	start := strings.IndexFunc(s, textmatch.IsDigit)
	if start < 0 {
		return Number{}, false
	}
	if start > 0 && s[start-1] == '.' {
		start--
	}
	var t literal
	end := t.scan(s, start)
	signed, negative, currency := false, false, rune(0)
	for _, r := range s[:start] {
		switch {
		case IsSign(r) && !signed:
			signed, negative = true, r != '+'
		case IsCurrency(r) && currency == 0:
			currency = r
		default:
			return Number{}, false
		}
	}
	rest, percent := s[end:], false
	if r, size := utf8.DecodeRuneInString(rest); IsCurrency(r) && (currency == 0 || currency == r) {
		currency, rest = r, rest[size:]
	} else if after, ok := strings.CutPrefix(strings.TrimLeft(rest, " "), "%"); ok {
		percent, rest = true, after
	}
	n, ok := t.number()
	if !ok || rest != "" {
		return Number{}, false
	}
	if negative {
		n.value.Neg(n.value)
	}
	n.currency, n.percent = currency, percent
	return n, true
}

// Matches reports whether got, an answer to q, equals the gold n exactly, or
// lies within tolerance of it where tolerance is not nil; the bound itself is
// within. A percent sign on got must stand on the gold too, or be what q asks
// for. A currency sign must be the gold's, or one that q allows where the gold
// has none; it may be left out.
func (n Number) Matches(got Number, tolerance *big.Rat, q *Question) bool {
	switch {
	case got.percent && !n.percent && !q.asksPercent():
		return false
	case got.currency == 0 || got.currency == n.currency:
	case n.currency != 0 || !q.allows(got.currency):
		return false
	}
	if tolerance == nil {
		return n.value.Cmp(got.value) == 0
	}
	diff := new(big.Rat).Sub(n.value, got.value)
	return diff.Abs(diff).Cmp(tolerance) <= 0
}

// Equal reports whether two numbers are the same answer.
func (n Number) Equal(m Number) bool {
	return n.value.Cmp(m.value) == 0 && n.percent == m.percent && (n.currency == m.currency || n.currency == 0 || m.currency == 0)
}

// Known reports whether n is a number, not the zero value.
func (n Number) Known() bool { return n.value != nil }

// Rat returns the exact value.
func (n Number) Rat() *big.Rat { return new(big.Rat).Set(n.value) }

// A literal is a number without sign, currency and percent, as it is written.
type literal struct {
	mantissa, exponent string
	grouped            bool // by thousands
}

// scan reads mantissa and exponent and returns where they end.
func (t *literal) scan(s string, i int) int {
	end := textmatch.DigitsEnd(s, i)
	if g := groupsEnd(s, i, end); g > end {
		end, t.grouped = g, true
	}
	if end < len(s) && s[end] == '.' {
		if f := textmatch.DigitsEnd(s, end+1); f > end+1 {
			end = f
		}
	}
	t.mantissa = s[i:end]
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		e := end + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if f := textmatch.DigitsEnd(s, e); f > e {
			t.exponent = s[end+1 : f]
			end = f
		}
	}
	return end
}

// groupsEnd returns where thousands groups that begin with s[i:end] end, or end
// where there are none: one to three digits that are not a lone zero, then
// commas with exactly three digits each.
func groupsEnd(s string, i, end int) int {
	if end-i < 1 || end-i > 3 || s[i] == '0' {
		return end
	}
	last := end
	for last < len(s) && s[last] == ',' {
		g := textmatch.DigitsEnd(s, last+1)
		if g-last-1 != 3 {
			break
		}
		last = g
	}
	return last
}

func IsSign(r rune) bool { return r == '+' || r == '-' || r == '−' }

// IsDash reports what may be meant as a minus sign without being one: the
// dashes of Unicode, the modifier letter, superscript, subscript and heavy minus
// signs and the hyphen bullet.
func IsDash(r rune) bool {
	return strings.ContainsRune("˗⁻₋➖⁃", r) || unicode.Is(unicode.Pd, r)
}

// number converts the literal; false means that it exceeds the bounds.
func (t literal) number() (Number, bool) {
	digits := strings.ReplaceAll(t.mantissa, ",", "")
	if len(strings.Replace(digits, ".", "", 1)) > MaxDigits {
		return Number{}, false
	}
	if t.exponent != "" {
		e, err := strconv.Atoi(t.exponent)
		if err != nil || e > MaxExponent || e < -MaxExponent {
			return Number{}, false
		}
		digits += "e" + t.exponent
	}
	v, ok := new(big.Rat).SetString(digits)
	if !ok {
		return Number{}, false
	}
	return Number{value: v}, true
}

func IsCurrency(r rune) bool { return unicode.Is(unicode.Sc, r) }
