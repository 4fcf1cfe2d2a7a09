package textmatch

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds on a number that is compared. They are checked before it is
// converted, so a short text cannot ask for a huge one.
const (
	MaxDigits   = 400 // digits before the exponent
	MaxExponent = 400 // absolute value of the exponent
)

// A Number is an exact decimal with the signs that were written beside it.
type Number struct {
	value    *big.Rat
	currency rune // 0 when there is none
	percent  bool
}

// A Finding says what [FindNumber] found.
type Finding uint8

// The findings.
const (
	NoNumber       Finding = iota // no number at all
	OneNumber                     // one number is stated, and nothing spoils it
	SeveralNumbers                // more than one
	UnclearNumber                 // one that something beside it may change
	WordNumber                    // none but in words
)

// ParseNumber reads a text that is a number as a whole: an optional sign,
// thousands groups, a fraction, an exponent, a currency sign on either side or
// a percent sign. Quotes around it and . , ; : after it are ignored. Text that
// is more than a number, or that exceeds [MaxDigits] or [MaxExponent], is none.
func ParseNumber(s string) (Number, bool) {
	s = strings.TrimRight(strings.TrimLeft(Collapse(NFC(s)), "\"'`"), edges)
	start := strings.IndexFunc(s, isDigit)
	if start < 0 {
		return Number{}, false
	}
	if start > 0 && s[start-1] == '.' {
		start--
	}
	t := scanNumber(s, start)
	if t.start != 0 || t.end != len(s) || t.spoiled {
		return Number{}, false
	}
	return t.number()
}

// Matches reports whether got, an answer to q, equals the gold n exactly, or
// lies within tolerance of it where tolerance is not nil; the bound itself is
// within. A percent sign on got must stand on the gold too, or be what q asks
// for. A currency sign must be the gold's, or one that q allows where the gold
// has none; it may be left out.
func (n Number) Matches(got Number, tolerance *big.Rat, q *Question) bool {
	if got.percent && !n.percent && !q.asksPercent() {
		return false
	}
	switch {
	case got.currency == 0 || got.currency == n.currency:
	case n.currency != 0 || !q.allows(got.currency):
		return false
	}
	return n.near(got, tolerance)
}

func (n Number) near(got Number, tolerance *big.Rat) bool {
	diff := new(big.Rat).Sub(n.value, got.value)
	if tolerance == nil {
		return diff.Sign() == 0
	}
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

// A literal is one number as it stands in a text.
type literal struct {
	start, end int // with sign, currency and percent
	mantissa   string
	exponent   string
	grouped    bool
	negative   bool
	currency   rune
	percent    bool
	spoiled    bool
}

// scanNumber reads the number whose first digit, or whose leading point, is
// at s[i].
func scanNumber(s string, i int) literal {
	t := literal{}
	end := t.scanDigits(s, i)
	t.start = t.scanBefore(s, i)
	t.end = t.scanAfter(s, end)
	return t
}

// scanDigits reads mantissa and exponent and returns where they end.
func (t *literal) scanDigits(s string, i int) int {
	end := digitsEnd(s, i)
	if g := groupsEnd(s, i, end); g > end {
		end, t.grouped = g, true
	}
	if end < len(s) && s[end] == '.' {
		if f := digitsEnd(s, end+1); f > end+1 {
			end = f
		}
	}
	t.mantissa = s[i:end]
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		e := end + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if f := digitsEnd(s, e); f > e {
			t.exponent = s[end+1 : f]
			end = f
		}
	}
	return end
}

func digitsEnd(s string, i int) int {
	for i < len(s) && isDigit(rune(s[i])) {
		i++
	}
	return i
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
		g := digitsEnd(s, last+1)
		if g-last-1 != 3 {
			break
		}
		last = g
	}
	return last
}

// scanBefore reads sign and currency in front of the digits at s[i:], judges
// what stands before them, and returns where the number starts.
func (t *literal) scanBefore(s string, i int) int {
	signed := false
	for {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		switch {
		case isSign(r) && !signed:
			signed, t.negative = true, r != '+'
		case unicode.Is(unicode.Sc, r) && t.currency == 0:
			t.currency = r
		default:
			t.spoiled = t.spoiled || size > 0 && spoilsBefore(r) || t.grouped && r == '['
			if !signed && r == ' ' {
				apart := func(r rune) bool { return r == ' ' || unicode.Is(unicode.Sc, r) }
				b, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(s[:i], apart))
				t.spoiled = t.spoiled || isSign(b) || isDash(b)
			}
			return i
		}
		i -= size
	}
}

// scanAfter reads currency and percent behind the digits that end at s[i],
// judges what follows them, and returns where the number ends.
func (t *literal) scanAfter(s string, i int) int {
	r, size := utf8.DecodeRuneInString(s[i:])
	if bare := strings.TrimLeft(s[i:], " "); unicode.Is(unicode.Sc, r) {
		t.spoiled = t.spoiled || t.currency != 0 && t.currency != r
		t.currency = r
		i += size
	} else if strings.HasPrefix(bare, "%") {
		t.percent = true
		i = len(s) - len(bare) + 1
	}
	r, size = utf8.DecodeRuneInString(s[i:])
	switch {
	case size == 0:
	case spoilsAfter(r) || t.grouped && r == ']':
		t.spoiled = true
	case r == '.' || r == ',':
		next, _ := utf8.DecodeRuneInString(s[i+size:])
		t.spoiled = t.spoiled || unicode.IsNumber(next)
	}
	return i
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isSign(r rune) bool { return r == '+' || r == '-' || r == '−' }

// isDash reports what may be meant as a minus sign without being one: the
// dashes of Unicode, the modifier letter, superscript, subscript and heavy minus
// signs and the hyphen bullet.
func isDash(r rune) bool {
	switch r {
	case '˗', '⁻', '₋', '➖', '⁃':
		return true
	}
	return unicode.Is(unicode.Pd, r)
}

func spoilsBefore(r rune) bool {
	return r == '.' || r == '%' || isSign(r) || isDash(r) || spoils(r)
}

func spoilsAfter(r rune) bool {
	return r == '%' || r == '+' || spoils(r)
}

// spoils reports what may stand on neither side of a number.
func spoils(r rune) bool {
	switch r {
	case '_', '^', '/', '‰', '‱', '％', '٪':
		return true
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.Cf) ||
		r >= utf8.RuneSelf && unicode.Is(unicode.Sm, r)
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
	if t.negative {
		v.Neg(v)
	}
	return Number{value: v, currency: t.currency, percent: t.percent}, true
}
