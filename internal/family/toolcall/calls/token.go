package calls

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a token of Python.
type tokenKind uint8

const (
	endToken tokenKind = iota
	nameToken
	valueToken // a number or a text
	opToken
	badToken // nothing that Python has
)

// token is one token. Texts that stand side by side are tokens of their own.
type token struct {
	kind       tokenKind
	text       string // of a name or an operator
	value      Value
	formatted  bool // a text with expressions in it
	start, end int  // in the source
}

// scanner cuts a source into tokens. All line ends count as blanks inside of brackets;
// outside of them, nothing may follow one.
type scanner struct {
	text  string
	at    int
	depth int // of brackets
}

// skip passes over blanks and comments; it reports whether a line ended outside of
// brackets.
func (s *scanner) skip() (ended bool) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\f':
		case '\n', '\r':
			ended = ended || s.depth == 0
		case '#':
			n := strings.IndexByte(s.text[s.at:], '\n')
			if n < 0 {
				s.at = len(s.text)
				return ended
			}
			s.at += n - 1
		case '\\':
			if !strings.HasPrefix(s.text[s.at:], "\\\n") {
				return ended
			}
			s.at++
		default:
			return ended
		}
		s.at++
	}
	return ended
}

// next returns the next token.
func (s *scanner) next() token {
	ended := s.skip()
	t := token{start: s.at}
	switch {
	case s.at == len(s.text):
	case ended:
		t.kind = badToken
	default:
		s.scan(&t)
	}
	t.end = s.at
	return t
}

func (s *scanner) scan(t *token) {
	rest := s.text[s.at:]
	if quoteAt(rest) >= 0 {
		s.quoted(t)
		return
	}
	if isDigit(rest[0]) || rest[0] == '.' && len(rest) > 1 && isDigit(rest[1]) {
		s.number(t)
		return
	}
	if n := nameEnd(rest); n > 0 {
		t.kind, t.text = nameToken, rest[:n]
		s.at += n
		return
	}
	for _, op := range []string{"...", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", ":="} {
		if strings.HasPrefix(rest, op) {
			t.kind, t.text = opToken, op
			s.at += len(op)
			return
		}
	}
	if !strings.ContainsRune("()[]{},:.=+-*/%@&|^~<>", rune(rest[0])) {
		t.kind = badToken
		return
	}
	switch rest[0] {
	case '(', '[', '{':
		s.depth++
	case ')', ']', '}':
		s.depth--
	}
	t.kind, t.text = opToken, rest[:1]
	s.at++
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// nameEnd returns where a name at the beginning of a text ends, 0 without one.
func nameEnd(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc)) {
			return i
		}
	}
	return len(s)
}

// number reads a number.
func (s *scanner) number(t *token) {
	rest := s.text[s.at:]
	n := 0
	for n < len(rest) && (isDigit(rest[n]) || rest[n] == '_' || rest[n] == '.' || rest[n] >= utf8.RuneSelf ||
		rest[n]|0x20 >= 'a' && rest[n]|0x20 <= 'z' || strings.ContainsRune("+-", rune(rest[n])) && n > 0 && rest[n-1]|0x20 == 'e' && !hex(rest[:n])) {
		n++
	}
	v, ok := numeral(rest[:n])
	t.kind, t.value = valueToken, v
	if !ok {
		t.kind = badToken
		return
	}
	s.at += n
}

func hex(s string) bool { return len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x' }

// maxDigits is the most characters of a number, as Python limits them.
const maxDigits = 4300

// numeral reads Python's numerals. An imaginary one is a value that equals none.
func numeral(s string) (Value, bool) {
	if len(s) > maxDigits || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return Value{}, false
	}
	plain := strings.ReplaceAll(s, "_", "")
	lower := strings.ToLower(plain)
	if len(lower) > 2 && lower[0] == '0' && strings.ContainsRune("xbo", rune(lower[1])) {
		n, ok := new(big.Int).SetString(lower, 0)
		if !ok {
			return Value{}, false
		}
		return Value{Kind: Int, Text: n.String()}, true
	}
	if whole := strings.Trim(lower, "0123456789") == ""; whole {
		if len(lower) > 1 && lower[0] == '0' && strings.Trim(lower, "0") != "" {
			return Value{}, false
		}
		n, _ := new(big.Int).SetString(lower, 10)
		return Value{Kind: Int, Text: n.String()}, n != nil
	}
	imaginary := strings.HasSuffix(lower, "j")
	lower = strings.TrimSuffix(lower, "j")
	if strings.Trim(lower, "0123456789.e+-") != "" || !decimal(lower) {
		return Value{}, false
	}
	if imaginary {
		return Value{}, true
	}
	return Value{Kind: Float, Text: jsonFloat(lower)}, true
}

// decimal reports whether a text has the form of a decimal number.
func decimal(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil || strings.Contains(err.Error(), "range")
}

// jsonFloat writes a decimal number of Python as JSON has it.
func jsonFloat(s string) string {
	mantissa, exponent, has := strings.Cut(s, "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if fraction == "" {
		fraction = "0"
	}
	if has {
		return whole + "." + fraction + "e" + exponent
	}
	return whole + "." + fraction
}
