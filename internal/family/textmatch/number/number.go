// Package number reads exact decimals: texts that are a number, and the number
// that a sentence states. Words, signs and units next to a number decide whether
// it is stated unchanged; some of them depend on the question.
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
	maxDigits   = 400 // digits before the exponent
	maxExponent = 400 // absolute value of the exponent
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
	None    Finding = iota // no number
	One                    // exactly one number is stated
	Several                // more than one
	Unclear                // its context may change its value
	InWords                // only in words
)

// Parse reads a text that is a number as a whole: an optional sign, thousands
// groups, a fraction, an exponent, a currency sign on either side or a percent
// sign. Quotes around it and . , ; : after it are ignored. It reports false for
// anything else, and for what exceeds [maxDigits] or [maxExponent].
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

// IsSign reports whether r is a plus or minus sign.
func IsSign(r rune) bool { return r == '+' || r == '-' || r == '−' }

// IsDash reports whether r may be meant as a minus sign without being one: the
// dashes of Unicode, the modifier letter, superscript, subscript and heavy minus
// signs and the hyphen bullet.
func IsDash(r rune) bool {
	return strings.ContainsRune("˗⁻₋➖⁃", r) || unicode.Is(unicode.Pd, r)
}

// number converts the literal; false means that it exceeds the bounds.
func (t literal) number() (Number, bool) {
	digits := strings.ReplaceAll(t.mantissa, ",", "")
	if len(strings.Replace(digits, ".", "", 1)) > maxDigits {
		return Number{}, false
	}
	if t.exponent != "" {
		e, err := strconv.Atoi(t.exponent)
		if err != nil || e > maxExponent || e < -maxExponent {
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

// IsCurrency reports whether r is a currency sign.
func IsCurrency(r rune) bool { return unicode.Is(unicode.Sc, r) }

// The kinds of a token.
const (
	aWord   = iota // letters, with an apostrophe inside
	aNumber        // ASCII digits, with groups, fraction and exponent
	aSign          // any other character
)

// A token is a part of a text next to or in a number.
type token struct {
	kind       int
	text       string // a word in lower case
	start, end int
	tight      bool // nothing stands between it and the token before
	capital    bool // a word that begins with a capital letter
	literal    literal
}

// sign is the character of a sign, or 0.
func (t token) sign() rune {
	if t.kind != aSign {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(t.text)
	return r
}

// tokens are the tokens of a text.
type tokens struct {
	list      []token
	foreign   bool // holds a digit beyond ASCII that is not the power of a unit
	invisible bool // holds an invisible character
}

// tokenize splits a collapsed text in NFC.
func tokenize(s string) tokens {
	var ts tokens
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		t := token{kind: aSign, start: i, tight: i > 0 && s[i-1] != ' '}
		switch {
		case textmatch.IsSpace(r):
			i += size
			continue
		case textmatch.IsDigit(r) || r == '.' && i+1 < len(s) && textmatch.IsDigit(rune(s[i+1])) && !pointed(s[:i]):
			t.kind = aNumber
			t.end = t.literal.scan(s, i)
			t.text = s[i:t.end]
		case unicode.In(r, unicode.L, unicode.M):
			t.kind, t.capital = aWord, unicode.IsUpper(r)
			t.end = wordEnd(s, i)
			t.text = textmatch.FoldWord(s[i:t.end])
			t.end = powerEnd(s, t.end)
		default:
			ts.foreign = ts.foreign || unicode.IsNumber(r)
			ts.invisible = ts.invisible || textmatch.IsInvisible(r)
			t.text, t.end = sign(s, i, r)
		}
		ts.list = append(ts.list, t)
		i = t.end
	}
	return ts
}

// pointed reports whether a point that follows before belongs to it instead of
// to a fraction.
func pointed(before string) bool {
	r, _ := utf8.DecodeLastRuneInString(before)
	return r == '.' || unicode.In(r, unicode.L, unicode.M)
}

func wordEnd(s string, i int) int {
	for j, r := range s[i:] {
		if unicode.In(r, unicode.L, unicode.M) || j > 0 && (textmatch.IsApostrophe(r) || r == '＇') && textmatch.StartsWord(s[i+j+utf8.RuneLen(r):]) {
			continue
		}
		return i + j
	}
	return len(s)
}

// powerEnd returns where the power of a unit that ends at s[i] ends: cm², m^2,
// m^{3}, s⁻¹.
func powerEnd(s string, i int) int {
	for _, p := range [...]string{"^{2}", "^{3}", "^2", "^3"} {
		if rest, ok := strings.CutPrefix(s[i:], p); ok && !textmatch.StartsWord(rest) {
			return i + len(p)
		}
	}
	end := i
	for j, r := range s[i:] {
		if !strings.ContainsRune("²³⁻¹", r) {
			break
		}
		end = i + j + utf8.RuneLen(r)
	}
	return end
}

// sign returns the sign at s[i] and where it ends. Signs of several characters
// become one: -> and => an arrow, != and its like an inequality.
func sign(s string, i int, r rune) (string, int) {
	end := i + utf8.RuneLen(r)
	switch {
	case r == utf8.RuneError:
		return "\\", i + 1
	case (r == '-' || r == '=') && strings.HasPrefix(s[end:], ">"):
		return "→", end + 1
	case strings.HasPrefix(s[i:], "=/="):
		return "≠", i + 3
	case strings.ContainsRune("!<>~/", r) && strings.HasPrefix(s[end:], "="):
		return "≠", end + 1
	case r == '<' && strings.HasPrefix(s[end:], ">"):
		return "≠", end + 1
	}
	return s[i:end], end
}

// Begins reports whether a text begins with a number that does not
// number a heading.
func Begins(s string) bool {
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
		case t.kind == aSign && (IsSign(c) || IsCurrency(c) || strings.ContainsRune("*_`(\"", c)):
		default:
			return false
		}
	}
	return false
}
