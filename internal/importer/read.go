package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"securebench/internal/source"
)

// maxLine bounds one line of a data set. The longest public row has 6 KB.
const maxLine = 8 << 20

// lines reads rows of JSON lines.
type lines struct {
	*source.Lines
	name string
}

func newLines(r io.Reader, name string) *lines {
	return &lines{source.NewLines(r, name, maxLine), name}
}

// maxArray bounds a data set that is one JSON array.
const maxArray = 256 << 20

// elements returns the rows of a data set that is one JSON array, or false.
func elements(r *bufio.Reader, name string) ([]*source.Node, bool, error) {
	if head, err := r.Peek(1); err != nil || head[0] != '[' {
		return nil, false, nil // an error comes again when lines are read
	}
	data, err := io.ReadAll(io.LimitReader(r, maxArray+1))
	if err != nil {
		return nil, true, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(data) > maxArray {
		return nil, true, fmt.Errorf("%s is larger than %d bytes: give it as JSON lines", name, maxArray)
	}
	root, err := source.ParseJSON(name, 1, data)
	if err != nil {
		return nil, true, err
	}
	return root.Items, true, nil
}

// rowsOf returns a function that returns row after row, of JSON lines or, if
// array is set, of one JSON array, and then io.EOF.
func rowsOf(in io.Reader, name string, array bool) (func() (*object, error), error) {
	if !array {
		return newLines(in, name).next, nil
	}
	r := bufio.NewReader(in)
	nodes, whole, err := elements(r, name)
	if err != nil {
		return nil, err
	}
	if !whole {
		return newLines(r, name).next, nil
	}
	return func() (*object, error) {
		if len(nodes) == 0 {
			return nil, io.EOF
		}
		node := nodes[0]
		nodes = nodes[1:]
		return asRow(node)
	}, nil
}

func asRow(node *source.Node) (*object, error) {
	if node.Kind != source.Map {
		return nil, &source.Problem{Pos: node.Pos, Message: fmt.Sprintf("a row must be an object, not %s", node.Kind), Fix: "write one object a line; jq -c '.[]' does so with a list"}
	}
	return &object{node: node}, nil
}

// next returns the next row, or io.EOF.
func (l *lines) next() (*object, error) {
	node, err := l.Next()
	var bad *source.Problem
	switch {
	case err == nil:
		return asRow(node)
	case errors.Is(err, io.EOF) || errors.As(err, &bad):
		return nil, err
	}
	return nil, fmt.Errorf("reading %s: %w", l.name, err)
}

// object reads the fields of one row and collects what is wrong with them, so
// that a conversion can be written without a check after every field.
type object struct {
	node     *source.Node
	problems source.Problems
}

// err returns the row's problems, a repeated id among them, or nil.
func (o *object) err(seen map[string]int, id string) error {
	if len(o.problems) > 0 {
		return o.problems.Err()
	}
	if line, again := seen[id]; again {
		o.fail(o.node, "the id %q is already used on line %d", id, line)
		return o.problems.Err()
	}
	seen[id] = o.node.Pos.Line
	return nil
}

func (o *object) fail(at *source.Node, format string, args ...any) {
	o.problems.Add(at.Pos, "", format, args...)
}

// suggest is fail with what the operator can do about it.
func (o *object) suggest(at *source.Node, fix, format string, args ...any) {
	o.problems.Add(at.Pos, fix, format, args...)
}

// only refuses fields that the data set does not have: an unknown field means
// another data set, or another edition of this one.
func (o *object) only(known ...string) {
	for _, f := range o.node.Fields {
		if !slices.Contains(known, f.Name) {
			o.problems.Add(f.Pos, "", "unknown field %q", f.Name)
		}
	}
}

// get returns a field that must be there, or nil after noting the problem.
func (o *object) get(name string) *source.Node {
	n := o.node.Get(name)
	if n == nil {
		o.fail(o.node, "the field %q is missing", name)
	}
	return n
}

// text reads a string that is not blank.
func (o *object) text(name string) string {
	n := o.get(name)
	if n == nil {
		return ""
	}
	s, p := n.Str(name)
	o.problems.Note(p)
	return s
}

// anyText reads a string that may be blank.
func (o *object) anyText(name string) string {
	n := o.get(name)
	if n == nil {
		return ""
	}
	if n.Kind != source.String {
		o.fail(n, "%s must be a string, not %s", name, n.Kind)
	}
	return n.Text
}

// texts reads a list of strings that are not blank; it must not be empty.
func (o *object) texts(name string) []string {
	n := o.get(name)
	if n == nil {
		return nil
	}
	list, p := n.Strings(name)
	o.problems.Note(p)
	if p == nil && len(list) == 0 {
		o.fail(n, "%s must not be empty", name)
	}
	return list
}

// maxRow bounds row numbers far above every data set.
const maxRow = 1 << 31

// number reads a row number.
func (o *object) number(name string) int64 { return o.numberOf(o.node, name) }

// numberOf is number for an object within the row.
func (o *object) numberOf(of *source.Node, name string) int64 {
	n := of.Get(name)
	if n == nil {
		o.fail(of, "the field %q is missing", name)
		return 0
	}
	i, p := n.Int(name, 0, maxRow)
	o.problems.Note(p)
	return i
}

// numberOr reads a row number that may be missing.
func (o *object) numberOr(name string, def int) int64 {
	if o.node.Get(name) == nil {
		return int64(def)
	}
	return o.number(name)
}
