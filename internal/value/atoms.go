package value

import (
	"bytes"
	"unicode/utf8"
)

func (d *Decoder) bareInt() Value {
	v := Value{Kind: d.tag()}
	if v.Kind != KindInt {
		d.Fail("an integer is expected")
		return Value{}
	}
	v.Atom = d.take(d.number())
	d.checkAtom(v)
	return v
}

// canonicalNaN is the only NaN that crosses.
const canonicalNaN = 0x7ff8000000000000

func (d *Decoder) floats(v *Value) {
	n := 8
	if v.Kind == KindComplex {
		n = 16
	}
	v.Atom = d.take(n)
	if !hasOneNaN(v.Atom) {
		d.Fail("a NaN with a payload")
	}
}

func (d *Decoder) checkAtom(v Value) {
	ok := true
	switch v.Kind {
	case KindInt:
		ok = isHex(bytes.TrimPrefix(v.Atom, []byte("-"))) && string(v.Atom) != "-0"
	case KindHandle:
		ok = d.Handles && isHex(v.Atom) && len(v.Atom) <= 8
	case KindString:
		ok = isText(v.Atom)
	case KindDecimal:
		ok = isDecimal(v.Atom)
	}
	if d.err == nil && !ok {
		d.Fail("not in canonical form")
	}
}

// isHex reports whether b is a natural number in lower-case hex.
func isHex(b []byte) bool {
	if len(b) == 0 || b[0] == '0' && len(b) > 1 {
		return false
	}
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isText reports whether b is UTF-8 in which surrogates may be unpaired.
func isText(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n <= 1 {
			if len(b) < 3 || b[0] != 0xED || b[1] < 0xA0 || b[1] > 0xBF || b[2] < 0x80 || b[2] > 0xBF {
				return false
			}
			n = 3
		}
		b = b[n:]
	}
	return true
}

// isDecimal reports whether b is a number as str(decimal.Decimal) writes it.
func isDecimal(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("-"))
	if string(b) == "NaN" || string(b) == "Infinity" {
		return true
	}
	digits, exponent, hasExponent := bytes.Cut(b, []byte("E"))
	if hasExponent && (len(exponent) < 2 || len(exponent) > 5 ||
		exponent[0] != '+' && exponent[0] != '-' || !isDigits(exponent[1:])) {
		return false
	}
	whole, part, hasPart := bytes.Cut(digits, []byte("."))
	return len(digits) <= maxDecimalDigits && isDigits(whole) && (!hasPart || isDigits(part))
}

func isDigits(b []byte) bool {
	return len(b) > 0 && !bytes.ContainsFunc(b, func(r rune) bool { return r < '0' || r > '9' })
}
