package source

import (
	"fmt"
	"strconv"
	"strings"
)

// errType says that a node has the wrong type.
func (n *Node) errType(what, want string) *Problem {
	return Problemf(n.Pos, "%s must be %s, not %s", what, want, n.Kind)
}

// Str reads a string that is not empty after trimming spaces.
func (n *Node) Str(what string) (string, *Problem) {
	if n.Kind != String {
		return "", n.errType(what, "a non-empty string")
	}
	if strings.TrimSpace(n.Text) == "" {
		return "", Problemf(n.Pos, "%s must be a non-empty string", what)
	}
	return n.Text, nil
}

// Boolean reads true or false.
func (n *Node) Boolean(what string) (bool, *Problem) {
	if n.Kind != Bool {
		return false, n.errType(what, "true or false")
	}
	return n.Text == "true", nil
}

// Int reads an integer within [lo, hi]. A number with a fraction or an
// exponent is not an integer, whatever its value.
func (n *Node) Int(what string, lo, hi int64) (int64, *Problem) {
	if n.Kind != Number {
		return 0, n.errType(what, "an integer")
	}
	if strings.ContainsAny(n.Text, ".eE") {
		return 0, Problemf(n.Pos, "%s must be an integer, not %s", what, n.Text)
	}
	i, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil || i < lo || i > hi {
		return 0, Problemf(n.Pos, "%s must be from %d to %d", what, lo, hi)
	}
	return i, nil
}

// Positive reads a finite number above zero.
func (n *Node) Positive(what string) (float64, *Problem) {
	f, err := strconv.ParseFloat(n.Text, 64)
	if n.Kind != Number || err != nil {
		return 0, n.errType(what, "a positive number")
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
