package compare

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/lazyregexp"
)

// Bounds on a number that is compared. They are checked before it is converted, so a
// short text cannot ask for a huge one.
const (
	maxDigits   = 400 // digits before the exponent
	maxExponent = 400 // absolute value of the exponent
)

// A Number is an exact value with the signs that were written next to it.
type Number struct {
	value    *big.Rat
	currency string // "" when there is none
	percent  bool
	fraction bool // written as a fraction or in words rather than as a decimal
}

// Rat returns the exact value.
func (n Number) Rat() *big.Rat { return new(big.Rat).Set(n.value) }

// ParseNumber reads a text that is a number as a whole: an optional sign, thousands
// groups, a fraction, an exponent, a currency sign on either side or a percent sign. It
// is how rows write numbers. Quotes around it and . , ; : after it are ignored. It
// reports false for anything else, and for what exceeds the bounds.
func ParseNumber(s string) (Number, bool) {
	s = strings.ReplaceAll(strings.ReplaceAll(s, `\%`, "%"), `\$`, "$")
	s = strings.ReplaceAll(strings.ReplaceAll(s, `,\!`, ","), "{,}", ",")
	s = strings.TrimRight(strings.TrimLeft(textmatch.Collapse(textmatch.NFC(s)), "\"'`"), textmatch.Edges)
	start := strings.IndexFunc(s, textmatch.IsDigit)
	if start < 0 {
		return Number{}, false
	}
	if start > 0 && s[start-1] == '.' {
		start--
	}
	t, end := scan(s, start)
	signed, negative, currency := false, false, ""
	for _, r := range s[:start] {
		switch {
		case isSign(r) && !signed:
			signed, negative = true, r != '+'
		case unicode.Is(unicode.Sc, r) && currency == "":
			currency = currencyOf(string(r))
		default:
			return Number{}, false
		}
	}
	rest, percent := s[end:], false
	if r, size := utf8.DecodeRuneInString(rest); unicode.Is(unicode.Sc, r) && (currency == "" || currency == currencyOf(string(r))) {
		currency, rest = currencyOf(string(r)), rest[size:]
	} else if after, ok := strings.CutPrefix(strings.TrimLeft(rest, " "), "%"); ok {
		percent, rest = true, after
	}
	v, ok := t.value()
	if !ok || rest != "" {
		return Number{}, false
	}
	if negative {
		v.Neg(v)
	}
	return Number{value: v, currency: currency, percent: percent}, true
}

// currencies pairs signs, codes and words with the currency that they name.
const currencies textmatch.List = " $=usd usd=usd us$=usd dollar=usd dollars=usd buck=usd bucks=usd €=eur eur=eur euro=eur euros=eur £=gbp gbp=gbp" +
	" pound=gbp pounds=gbp ¥=jpy jpy=jpy yen=jpy 円=jpy cny=cny rmb=cny yuan=cny 元=cny ₹=inr inr=inr rs=inr rupee=inr rupees=inr" +
	" ¢=cent cent=cent cents=cent 美元=usd 欧元=eur chf=chf cad=cad aud=aud ₩=krw won=krw 원=krw ₽=rub 루블=rub рублей=rub рубль=rub "

// currencyOf returns the currency that a sign or word names, or "".
func currencyOf(s string) string {
	if name, ok := currencies.Value(textmatch.FoldWord(s)); ok {
		return name
	}
	if r, _ := utf8.DecodeRuneInString(s); unicode.Is(unicode.Sc, r) {
		return s
	}
	return ""
}

// A literal is a number without sign, currency and percent, as it is written.
type literal struct {
	mantissa, exponent string
}

// decimals are what may follow the whole part of a number: decimals and an exponent.
var decimals = lazyregexp.New(`^(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?`)

// scan reads the literal that begins at s[i] and returns where it ends.
func scan(s string, i int) (literal, int) {
	whole := groupsEnd(s, i, textmatch.DigitsEnd(s, i))
	end := whole + len(decimals.FindString(s[whole:]))
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s[i:end]), "e")
	return literal{mantissa, exponent}, end
}

// groups are the signs that part thousands; a number has one kind of them.
const groups = ",' _\u2019\u00a0\u202f\u2009"

// groupsEnd returns where thousands groups that begin with s[i:end] end, or end where
// there are none: one to three digits that are not a lone zero, then a sign with exactly
// three digits, and again. A space makes groups only if every group of the number has it.
func groupsEnd(s string, i, end int) int {
	sign, _ := utf8.DecodeRuneInString(s[end:])
	if end == i || end-i > 3 || s[i] == '0' || !strings.ContainsRune(groups, sign) {
		return end
	}
	for {
		r, size := utf8.DecodeRuneInString(s[end:])
		digits := end + size
		last := textmatch.DigitsEnd(s, digits)
		if r != sign || last != digits+3 {
			return end
		}
		end = last
	}
}

// value converts the literal; false means that it exceeds the bounds.
func (t literal) value() (*big.Rat, bool) {
	digits := strings.Map(func(r rune) rune {
		if strings.ContainsRune(groups, r) {
			return -1
		}
		return r
	}, t.mantissa)
	if digits == "" || len(strings.Replace(digits, ".", "", 1)) > maxDigits {
		return nil, false
	}
	if t.exponent != "" {
		e, err := strconv.Atoi(t.exponent)
		if err != nil || e > maxExponent || e < -maxExponent {
			return nil, false
		}
		digits += "e" + t.exponent
	}
	return new(big.Rat).SetString(digits)
}

func isSign(r rune) bool { return r == '+' || r == '-' || r == '−' }

// vulgar are the fractions that are one character.
var vulgar = map[rune][2]int64{'½': {1, 2}, '⅓': {1, 3}, '⅔': {2, 3}, '¼': {1, 4}, '¾': {3, 4}, '⅕': {1, 5}, '⅖': {2, 5}, '⅗': {3, 5}, //nolint:gochecknoglobals // a constant
	'⅘': {4, 5}, '⅙': {1, 6}, '⅚': {5, 6}, '⅛': {1, 8}, '⅜': {3, 8}, '⅝': {5, 8}, '⅞': {7, 8}}
