package mathmatch

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
)

// Limits of a tree.
const (
	maxNodes = 500
	maxDepth = 60
	maxTree  = 64 << 10 // bytes
)

// errTree is wrapped by the errors of trees that are not passed on.
var errTree = errors.New("the expression has a part that is not on the list")

// node is an expression as the case sandbox wrote it: a name, and nodes or texts.
type node struct {
	name  string
	texts []string
	args  []node
}

// form is what may be behind a name: texts first, and then nodes.
type form struct {
	texts    []*lazyregexp.Regexp
	least    int // nodes
	most     int
	ofMatrix bool // as many nodes as rows times columns
}

var (
	integer   = lazyregexp.New(`^-?[0-9]{1,400}$`)
	positive  = lazyregexp.New(`^[1-9][0-9]{0,399}$`)
	decimal   = lazyregexp.New(`^-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:e[-+][0-9]{1,3})?$`)
	precision = lazyregexp.New(`^[1-9][0-9]{0,3}$`)
	symbol    = lazyregexp.New(`^[A-Za-z]{1,32}$`)
	indexed   = lazyregexp.New(`^[A-Za-z]{1,32}(?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9]{1,8}\}))?$`)
	small     = lazyregexp.New(`^[1-9][0-9]?$`)
)

// forms of nodes. What is not here does not reach the oracle sandbox. No name is of
// anything that runs code, reads text as an expression, or takes part in evaluation
// before the oracle compares.
var nodeForms = func() map[string]form { //nolint:gochecknoglobals // a constant
	texts := func(of ...*lazyregexp.Regexp) []*lazyregexp.Regexp { return of }
	out := map[string]form{
		"Integer": {texts: texts(integer)}, "Rational": {texts: texts(integer, positive)}, "Float": {texts: texts(decimal, precision)},
		"Symbol": {texts: texts(indexed)}, "RealSymbol": {texts: texts(indexed)},
		"Apply":  {texts: texts(symbol), least: 1, most: 8},
		"Matrix": {texts: texts(small, small), least: 1, most: maxNodes, ofMatrix: true},
		"Pow":    {least: 2, most: 2}, "Mod": {least: 2, most: 2}, "UnevaluatedExpr": {least: 1, most: 1}, "Interval": {least: 4, most: 4},
		"log": {least: 1, most: 2}, "binomial": {least: 2, most: 2},
		"Add": {least: 1, most: maxNodes}, "Mul": {least: 1, most: maxNodes}, "MatAdd": {least: 1, most: maxNodes}, "MatMul": {least: 1, most: maxNodes},
		"FiniteSet": {most: maxNodes}, "And": {most: maxNodes}, "Tuple": {most: maxNodes}, "Union": {least: 1, most: maxNodes},
		"Max": {least: 1, most: maxNodes}, "Min": {least: 1, most: maxNodes},
	}
	for _, name := range strings.Fields(`Pi Exp1 ImaginaryUnit Infinity NegativeInfinity ComplexInfinity EmptySet Reals Integers Naturals Rationals Complexes BooleanTrue BooleanFalse`) {
		out[name] = form{}
	}
	for _, name := range strings.Fields(`sin cos tan cot sec csc asin acos atan acot asec acsc sinh cosh tanh coth asinh acosh atanh exp Abs factorial floor ceiling sign re im arg conjugate`) {
		out[name] = form{least: 1, most: 1}
	}
	for _, name := range relations {
		out[name] = form{least: 2, most: 2}
	}
	return out
}()

var relations = []string{"Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan"} //nolint:gochecknoglobals // a constant

// readTree reads what the case sandbox wrote, which is untrusted, and returns it in one
// spelling with what its root is.
func readTree(data []byte) (n node, canonical []byte, err error) {
	if len(data) > maxTree {
		return node{}, nil, fmt.Errorf("%w: it is larger than %d bytes", errTree, maxTree)
	}
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(false))
	left := maxNodes
	if n, err = readNode(d, 1, &left); err != nil {
		return node{}, nil, err
	}
	if _, err := d.ReadToken(); err == nil || d.InputOffset() < int64(len(bytes.TrimRight(data, " \t\r\n"))) {
		return node{}, nil, fmt.Errorf("%w: something follows it", errTree)
	}
	canonical, err = json.Marshal(n.plain())
	return n, canonical, err
}

// readNode reads an array: a name, its texts and its nodes.
func readNode(d *jsontext.Decoder, depth int, left *int) (n node, err error) {
	if *left--; *left < 0 || depth > maxDepth {
		return n, fmt.Errorf("%w: it has more than %d nodes, or %d levels", errTree, maxNodes, maxDepth)
	}
	open, err := d.ReadToken()
	if err != nil || open.Kind() != '[' {
		return n, fmt.Errorf("%w: an array is expected", errTree)
	}
	first, err := d.ReadToken()
	if err != nil || first.Kind() != '"' {
		return n, fmt.Errorf("%w: a name is expected", errTree)
	}
	n.name = first.String()
	for {
		switch d.PeekKind() {
		case ']':
			_, err := d.ReadToken()
			if err == nil {
				err = n.check()
			}
			return n, err
		case '"':
			t, err := d.ReadToken()
			if err != nil || len(n.args) > 0 || len(n.texts) > 2 {
				return n, fmt.Errorf("%w: a text is where a node is expected", errTree)
			}
			n.texts = append(n.texts, t.String())
		case '[':
			arg, err := readNode(d, depth+1, left)
			if err != nil {
				return n, err
			}
			n.args = append(n.args, arg)
		default:
			return n, fmt.Errorf("%w: neither a text nor an array", errTree)
		}
	}
}

// check holds a node to the form of its name.
func (n node) check() error {
	f, ok := nodeForms[n.name]
	if !ok || len(n.texts) != len(f.texts) || len(n.args) < f.least || len(n.args) > f.most {
		return errTree
	}
	for i, want := range f.texts {
		if !want.MatchString(n.texts[i]) {
			return errTree
		}
	}
	if f.ofMatrix && len(n.args) != atoi(n.texts[0])*atoi(n.texts[1]) {
		return errTree
	}
	return nil
}

// atoi reads a text of at most two digits, which has been checked.
func atoi(s string) (n int) {
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	return n
}

// plain is the node as JSON writes it.
func (n node) plain() []any {
	out := []any{n.name}
	for _, t := range n.texts {
		out = append(out, t)
	}
	for _, a := range n.args {
		out = append(out, a.plain())
	}
	return out
}

// fits reports whether a tree is what an expression of a shape is parsed to.
func (n node) fits(s shape) bool {
	among := func(names ...string) bool { return slices.Contains(names, n.name) }
	collects := among("FiniteSet", "Tuple", "Interval", "Union", "EmptySet", "Reals", "Integers", "Naturals", "Rationals", "Complexes")
	related := among(relations...) || n.name == "And"
	matrices := among("Matrix", "MatAdd", "MatMul")
	switch s {
	case number, expression, ratio:
		return !collects && !related && !matrices
	case set:
		return among("FiniteSet", "EmptySet", "Union", "Tuple")
	case tuple, pair, interval:
		return among("Tuple", "Interval", "Union", "FiniteSet", "EmptySet", "Matrix", "Reals")
	case matrix:
		return !collects && !related
	case equation:
		return related || among("FiniteSet")
	case inequality:
		return related
	}
	return false
}
