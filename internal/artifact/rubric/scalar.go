package rubric

import (
	"math"
	"strconv"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/family/textmatch"
)

// kind is the kind of a value.
type kind uint8

const (
	nothing kind = iota // nothing, or NaN
	text
	number
	digits // a whole number with more digits than a float64 keeps
	truth
	date
	failure // an error of a calculation
)

// scalar is a value of a table or of data.
type scalar struct {
	kind   kind
	text   string // as written; of digits, in the shortest form
	number float64
}

// The limits of numbers.
const (
	maxNumber  = 400 // characters; a longer one is a text
	safeDigits = 15  // as many decimal digits a float64 keeps, whatever they are
	exact      = 1 << 53
	nearly     = 1e-9  // part by which numbers differ that were calculated in another order
	nearZero   = 1e-12 // the same beside 0
	rounding   = 1e-15 // part that a tolerance gets, because 1.01-1 is more than 0.01
)

// ofText is the value of a field of a CSV file, which has no types.
func ofText(s string) scalar {
	if s == "" || len(s) == len("nan") && strings.EqualFold(s, "nan") {
		return scalar{kind: nothing, text: s}
	}
	t := strings.Trim(s, " \t")
	mantissa, whole, ok := numeral(t)
	if !ok {
		return scalar{kind: text, text: s}
	}
	v, err := strconv.ParseFloat(t, 64)
	if err != nil {
		return scalar{kind: text, text: s} // beyond all float64
	}
	if whole && mantissa > safeDigits {
		sign := ""
		if t[0] == '-' {
			sign = "-"
		}
		return scalar{kind: digits, text: sign + strings.TrimLeft(t, "+-"), number: v}
	}
	return scalar{kind: number, text: t, number: v}
}

// numeral reports whether s is a decimal number, how many digits it has before an
// exponent, and whether it is written as a whole number. 007 is none: it is an identifier.
func numeral(s string) (mantissa int, whole, ok bool) {
	if s == "" || len(s) > maxNumber {
		return 0, false, false
	}
	i := 0
	if s[0] == '+' || s[0] == '-' {
		i++
	}
	start := i
	i = digitsEnd(s, i)
	before := i - start
	if before > 1 && s[start] == '0' {
		return 0, false, false
	}
	after := 0
	if whole = true; i < len(s) && s[i] == '.' {
		end := digitsEnd(s, i+1)
		after, i, whole = end-i-1, end, false
	}
	if before+after == 0 {
		return 0, false, false
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if end := digitsEnd(s, i); end > i {
			return before + after, false, end == len(s)
		}
		return 0, false, false
	}
	return before + after, whole, i == len(s)
}

func digitsEnd(s string, i int) int { return textmatch.DigitsEnd(s, i) }

// ofValue is the value of a cell of a workbook, which has types: a text that looks like a
// number is a text.
func ofValue(v artifact.Value) scalar {
	switch v.Kind {
	case artifact.Number:
		if finite(v.Number) {
			return scalar{kind: number, text: strconv.FormatFloat(v.Number, 'g', -1, 64), number: v.Number}
		}
		return scalar{kind: failure, text: "a number that is not finite"}
	case artifact.String:
		if v.Text == "" {
			return scalar{}
		}
		return scalar{kind: text, text: v.Text}
	case artifact.Bool:
		word := "FALSE"
		if v.Number != 0 {
			word = "TRUE"
		}
		return scalar{kind: truth, text: word, number: v.Number}
	case artifact.Date:
		if finite(v.Number) {
			return scalar{kind: date, text: dayText(v.Number), number: v.Number}
		}
		return scalar{kind: failure, text: "a date that is not finite"}
	case artifact.Failed:
		return scalar{kind: failure, text: v.Text}
	}
	return scalar{}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// leniency says how two values that count as equal may differ.
type leniency struct {
	tolerance, relative     *float64
	ignoreCase, ignoreSpace bool
}

// equal reports whether a candidate's value is the reference's.
func (l leniency) equal(got, want scalar) bool {
	got, want = l.plain(got), l.plain(want)
	if got.kind != want.kind {
		return false
	}
	switch got.kind {
	case nothing:
		return true
	case number, date:
		return l.near(got.number, want.number)
	case digits, truth:
		return got.text == want.text
	}
	return got.text == want.text || l.folded(got.text) == l.folded(want.text)
}

// plain is a value whose digits are a number where a tolerance makes them one.
func (l leniency) plain(s scalar) scalar {
	if s.kind == digits && (l.tolerance != nil || l.relative != nil) {
		s.kind = number
	}
	return s
}

// near reports whether two finite numbers count as equal. Without a tolerance, whole
// numbers are so if they are the same, and others if they are but for the order in which
// a program added them.
func (l leniency) near(got, want float64) bool {
	if got == want {
		return true
	}
	reach, size := l.reach(want), max(math.Abs(got), math.Abs(want))
	switch {
	case l.tolerance != nil || l.relative != nil:
		reach += rounding * size
	case size < exact && got == math.Trunc(got) && want == math.Trunc(want):
		return false
	}
	return math.Abs(got-want) <= reach
}

// reach is how far from the reference's number a candidate's may be.
func (l leniency) reach(want float64) float64 {
	switch {
	case l.tolerance == nil && l.relative == nil && want == 0:
		return nearZero
	case l.tolerance == nil && l.relative == nil:
		return nearly * math.Abs(want)
	}
	out := 0.0
	if l.tolerance != nil {
		out = *l.tolerance
	}
	if l.relative != nil {
		out = max(out, *l.relative*math.Abs(want))
	}
	return out
}

// folded is the form in which texts are compared.
func (l leniency) folded(s string) string {
	if l.ignoreSpace {
		s = textmatch.Collapse(s)
	}
	if l.ignoreCase {
		return textmatch.Lower(s)
	}
	return textmatch.NFC(s)
}

// appendKey appends what tells a value from all that are not exactly equal to it. The
// number of a value is left out where loose is set: it is compared apart.
func (l leniency) appendKey(b []byte, s scalar, loose bool) []byte {
	s = l.plain(s)
	b = append(b, byte('0'+s.kind))
	switch s.kind {
	case nothing:
	case number, date:
		if !loose {
			b = strconv.AppendFloat(b, s.number+0, 'g', -1, 64) // +0: -0 is 0
		}
	case text, failure:
		t := l.folded(s.text)
		b = strconv.AppendInt(b, int64(len(t)), 10)
		b = append(append(b, ':'), t...)
	default:
		b = append(b, s.text...)
	}
	return append(b, 0)
}

// dayText is a date as days since the first one that workbooks know.
func dayText(days float64) string { return "day " + strconv.FormatFloat(days, 'f', -1, 64) }

// String is the value as messages show it.
func (s scalar) String() string {
	switch s.kind {
	case nothing:
		return "nothing"
	case text, failure:
		return shown(s.text)
	}
	return longer(s.text)
}
