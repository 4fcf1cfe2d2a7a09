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
	NoNumber       Finding = iota // no digit at all
	OneNumber                     // exactly one number, and nothing spoils it
	SeveralNumbers                // more than one number
	UnclearNumber                 // one number that something beside it may change
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

// FindNumber returns the number of a text that holds exactly one. The text is
// expected in NFC. A number is spoiled, and so unclear, by
//
//   - a letter, mark, number character, _ ^ / or invisible character next to
//     it, a mathematical sign other than its own, a percent sign before it, a
//     plus sign after it, or a . or , that leads to more digits;
//   - a sign that is not its own, a dash or what looks like one before it, also
//     with spaces and a currency sign between them;
//   - square brackets around thousands groups, which read like a list;
//   - a negator, an invisible character, or two currencies anywhere.
//
// Every run of ASCII digits counts as a number, and so does every other number
// character of Unicode.
func FindNumber(s string) (Number, Finding) {
	var first token
	found, currency, spoiled := false, rune(0), false
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case isDigit(r) || r == '.' && i+1 < len(s) && isDigit(rune(s[i+1])):
			if found {
				return Number{}, SeveralNumbers
			}
			first, found = scanNumber(s, i), true
			i = first.next
			continue
		case unicode.IsNumber(r):
			return Number{}, SeveralNumbers
		case unicode.Is(unicode.Cf, r):
			spoiled = true
		case unicode.Is(unicode.Sc, r):
			spoiled = spoiled || currency != 0 && currency != r
			currency = r
		}
		i += size
	}
	if !found {
		return Number{}, NoNumber
	}
	n, ok := first.number()
	if n.currency == 0 {
		n.currency = currency
	}
	if !ok || spoiled || first.spoiled || currency != 0 && n.currency != currency || HasNegator(s) {
		return Number{}, UnclearNumber
	}
	return n, OneNumber
}

// Matches reports whether got equals the gold n exactly, or lies within
// tolerance of it where tolerance is not nil; the bound itself is within. A
// percent sign must stand on the gold to be allowed on got. A currency sign may
// be left out or added, but not exchanged.
func (n Number) Matches(got Number, tolerance *big.Rat) bool {
	if got.percent && !n.percent {
		return false
	}
	if n.currency != 0 && got.currency != 0 && n.currency != got.currency {
		return false
	}
	diff := new(big.Rat).Sub(n.value, got.value)
	if tolerance == nil {
		return diff.Sign() == 0
	}
	return diff.Abs(diff).Cmp(tolerance) <= 0
}

// Rat returns the exact value.
func (n Number) Rat() *big.Rat { return new(big.Rat).Set(n.value) }

// A token is one number as it stands in a text.
type token struct {
	start, end int // with sign, currency and percent
	next       int // where the scan goes on
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
func scanNumber(s string, i int) token {
	t := token{}
	end := t.scanDigits(s, i)
	t.next = end
	t.start = t.scanBefore(s, i)
	t.end = t.scanAfter(s, end)
	return t
}

// scanDigits reads mantissa and exponent and returns where they end.
func (t *token) scanDigits(s string, i int) int {
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
func (t *token) scanBefore(s string, i int) int {
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
func (t *token) scanAfter(s string, i int) int {
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

// number converts the token; false means that it exceeds the bounds.
func (t token) number() (Number, bool) {
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
