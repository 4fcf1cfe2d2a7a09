package number

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
)

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
