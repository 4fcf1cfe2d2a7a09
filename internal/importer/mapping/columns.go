package mapping

import (
	"errors"
	"io"
	"strings"

	"securebench/internal/importer/table"
	"securebench/internal/source"
)

// Column is a column of a table as an operator is shown it.
type Column struct {
	table.Column
	First string // the first value that says something, as text or JSON
}

// looked is how many rows are looked at for a first value.
const looked = 100

// Columns returns the columns of a table, with the first value of each.
func Columns(t Table, o table.Options) (_ []Column, err error) {
	f, err := table.Open(t.Path, t.Name, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var out []Column
	places := map[string]int{}
	add := func(c table.Column) int {
		places[c.Name] = len(out)
		out = append(out, Column{Column: c})
		return len(out) - 1
	}
	for _, c := range f.Columns {
		add(c)
	}
	for range looked {
		row, err := f.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, field := range row.Fields {
			i, ok := places[field.Name]
			if !ok {
				i = add(table.Column{Name: field.Name})
			}
			if c := &out[i]; c.First == "" && !blank(field.Value) {
				c.First = shown(field.Value)
				if c.Type == "" {
					c.Type = kindOf(field.Value)
				}
			}
		}
	}
	return out, nil
}

// kindOf says what a value is, in the words that a schema is told in.
func kindOf(n *source.Node) string {
	switch n.Kind {
	case source.String:
		return "text"
	case source.Bool:
		return "true or false"
	}
	return strings.TrimPrefix(strings.TrimPrefix(n.Kind.String(), "a "), "an ")
}

// maxShown is the most characters of a value that are looked at to show it.
const maxShown = 400

// shown writes a value on one line.
func shown(n *source.Node) string {
	text := n.Text
	if n.Kind == source.List || n.Kind == source.Map {
		text = string(n.JSON())
	}
	return strings.Join(strings.Fields(text[:min(len(text), maxShown)]), " ")
}
