package rubric

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of data that are compared.
const (
	maxValues = 1 << 18
	maxDepth  = 64
)

// node is a value of JSON. Members of an object are in the order of their names.
type node struct {
	kind  jsontext.Kind // null, true, a string, a number, an object or a list
	value scalar        // of a string or a number
	names []string
	items []node
}

// readData reads exactly one value. Names that come twice, numbers that are not finite
// and deep nesting are errors.
func readData(s string) (node, error) {
	p := dataReader{dec: jsontext.NewDecoder(strings.NewReader(s)), left: maxValues}
	n, err := p.value(0)
	if err != nil {
		return node{}, fmt.Errorf("it is no JSON: %w", err)
	}
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return node{}, errors.New("it is no JSON: something follows the value")
	}
	return n, nil
}

type dataReader struct {
	dec  *jsontext.Decoder
	left int
}

func (p *dataReader) value(depth int) (node, error) {
	if p.left--; p.left < 0 {
		return node{}, fmt.Errorf("more than %d values", maxValues)
	}
	if depth > maxDepth {
		return node{}, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	t, err := p.dec.ReadToken()
	if err != nil {
		return node{}, err
	}
	n := node{kind: t.Kind()}
	switch n.kind {
	case '"':
		n.value = scalar{kind: text, text: t.String()}
	case '0':
		if n.value = ofText(t.String()); n.value.kind != number && n.value.kind != digits {
			return node{}, errors.New("a number that is not finite, or too long")
		}
	case '{', '[':
		return n, p.members(&n, depth)
	}
	return n, nil
}

func (p *dataReader) members(n *node, depth int) error {
	for end := n.kind + 2; p.dec.PeekKind() != end; {
		if n.kind == '{' {
			name, err := p.dec.ReadToken()
			if err != nil {
				return err
			}
			n.names = append(n.names, name.String())
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, v)
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	if n.kind == '{' {
		n.sortMembers()
	}
	return nil
}

// sortMembers puts the members in the order of their names.
func (n *node) sortMembers() {
	order := places(len(n.names))
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(n.names[a], n.names[b]) })
	names, items := make([]string, len(order)), make([]node, len(order))
	for i, at := range order {
		names[i], items[i] = n.names[at], n.items[at]
	}
	n.names, n.items = names, items
}

// get returns the member with a name, nil without one.
func (n *node) get(name string) *node {
	if i, ok := slices.BinarySearch(n.names, name); ok {
		return &n.items[i]
	}
	return nil
}

// String is the value as messages show it.
func (n *node) String() string {
	switch n.kind {
	case '{':
		return fmt.Sprintf("an object with %d members", len(n.names))
	case '[':
		return fmt.Sprintf("a list of %d", len(n.items))
	case '"', '0':
		return n.value.String()
	}
	return n.kind.String()
}
