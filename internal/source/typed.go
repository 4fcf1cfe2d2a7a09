package source

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Given returns the value of a key, nil if it is missing or null.
func (n *Node) Given(key string) *Node {
	if v := n.Get(key); v != nil && v.Kind != Null {
		return v
	}
	return nil
}

// Note adds a problem that a reader returned, if there is one, and reports whether
// there is.
func (ps *Problems) Note(p *Problem) bool {
	if p != nil {
		*ps = append(*ps, p)
	}
	return p != nil
}

// Optional reads a key of an object into dst, if it is given: the last part of key,
// which names it in messages.
func Optional[T any](ps *Problems, s *Node, key string, dst *T, read func(n *Node, what string) (T, *Problem)) {
	n := s.Given(key[strings.LastIndexByte(key, '.')+1:])
	if n == nil {
		return
	}
	if v, p := read(n, key); !ps.Note(p) {
		*dst = v
	}
}

// errType reports that a node has the wrong type.
func (n *Node) errType(what, want string) *Problem {
	return Problemf(n.Pos, "%s must be %s, not %s", what, want, n.Kind)
}

// OddText refuses an unquoted scalar that some YAML readers don't read as a
// string, such as a date or yes. It returns nil for every other node.
func (n *Node) OddText(what string) *Problem {
	if n.Kind != String || !n.Odd {
		return nil
	}
	return &Problem{Pos: n.Pos, Message: fmt.Sprintf("%s is written as %s, which some YAML readers do not read as text", what, n.Plain), Fix: n.quoteIt()}
}

// quoteIt says how to write a plain scalar as text.
func (n *Node) quoteIt() string {
	text := n.Plain
	if text == "" && (n.Kind == Number || n.Kind == Bool) { // of JSON
		text = n.Text
	}
	if text == "" {
		return ""
	}
	return "quote it: " + strconv.Quote(text)
}

// oddNumber refuses a number about which YAML readers disagree.
func (n *Node) oddNumber(what, want string) *Problem {
	return &Problem{Pos: n.Pos, Message: fmt.Sprintf("%s must be %s in plain digits, not %s", what, want, n.Plain),
		Fix: "YAML readers disagree whether it is " + n.Text}
}

// Str reads a string that is not blank.
func (n *Node) Str(what string) (string, *Problem) {
	if n.Kind != String {
		p := n.errType(what, "a non-empty string")
		p.Fix = n.quoteIt()
		return "", p
	}
	if p := n.OddText(what); p != nil {
		return "", p
	}
	if strings.TrimSpace(n.Text) == "" {
		return "", Problemf(n.Pos, "%s must be a non-empty string", what)
	}
	return n.Text, nil
}

// Boolean reads true or false.
func (n *Node) Boolean(what string) (bool, *Problem) {
	if n.Kind != Bool {
		p := n.errType(what, "true or false")
		if n.Odd && n.Kind == String {
			p.Message = fmt.Sprintf("%s must be true or false, not %s", what, n.Plain)
		}
		return false, p
	}
	return n.Text == "true", nil
}

// Int reads an integer from lo to hi. A number written with a fraction or an
// exponent is refused.
func (n *Node) Int(what string, lo, hi int64) (int64, *Problem) {
	if n.Kind != Number {
		return 0, n.errType(what, "an integer")
	}
	if n.Odd && !strings.ContainsAny(n.Text, ".eE") {
		return 0, n.oddNumber(what, "an integer")
	}
	if strings.ContainsAny(n.Text, ".eE") {
		return 0, Problemf(n.Pos, "%s must be an integer, not %s", what, cmp.Or(n.Plain, n.Text))
	}
	i, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil || i < lo || i > hi {
		return 0, Problemf(n.Pos, "%s must be from %d to %d", what, lo, hi)
	}
	return i, nil
}

// Positive reads a finite number above zero. A form that every YAML reader reads
// as the same number, such as .5, is accepted.
func (n *Node) Positive(what string) (float64, *Problem) {
	f, err := strconv.ParseFloat(n.Text, 64)
	if n.Kind != Number || err != nil {
		return 0, n.errType(what, "a positive number")
	}
	if n.Odd && oddDigits.MatchString(n.Plain) {
		return 0, n.oddNumber(what, "a number")
	}
	if f <= 0 {
		return 0, Problemf(n.Pos, "%s must be above 0", what)
	}
	return f, nil
}

// Strings reads a list of strings that are not blank.
func (n *Node) Strings(what string) ([]string, *Problem) {
	if n.Kind != List {
		return nil, n.errType(what, "a list")
	}
	out := make([]string, 0, len(n.Items))
	for i, it := range n.Items {
		s, p := it.Str(fmt.Sprintf("%s[%d]", what, i))
		if p != nil {
			return nil, p
		}
		out = append(out, s)
	}
	return out, nil
}
