package answers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"securebench/internal/source"
)

// The fields of an answer, as a [Map] names them.
const (
	ID         = "id"
	Text       = "text"
	Attempt    = "attempt"
	StopReason = "stop_reason"
)

// Map says in which columns of a file the fields of answers are. The zero value leaves
// that to the file's form.
type Map struct {
	columns map[string]column
	written string
}

// column is the name of a column, or a text with names of columns in braces.
type column struct {
	written string
	parts   []string // text and names by turns, if there are braces
}

// ParseMap reads "id=COLUMN,text=COLUMN".
func ParseMap(s string) (Map, error) {
	if s == "" {
		return Map{}, nil
	}
	m := Map{columns: map[string]column{}, written: s}
	for item := range strings.SplitSeq(s, ",") {
		field, name, found := strings.Cut(strings.TrimSpace(item), "=")
		if !found || name == "" {
			return Map{}, fmt.Errorf("%q names no column: write it as id=COLUMN,text=COLUMN", item)
		}
		if !slices.Contains([]string{ID, Text, Attempt, StopReason}, field) {
			return Map{}, fmt.Errorf("%q is no field of an answer: want id, text, attempt or stop_reason", field)
		}
		if _, twice := m.columns[field]; twice {
			return Map{}, fmt.Errorf("%s has two columns: give it one", field)
		}
		c, err := parseColumn(name)
		if err != nil {
			return Map{}, err
		}
		if c.template() && field != ID && field != Text {
			return Map{}, fmt.Errorf("%s must be the name of a column, without braces", field)
		}
		m.columns[field] = c
	}
	return m, nil
}

// parseColumn reads a name, or a text with names in braces.
func parseColumn(s string) (column, error) {
	c := column{written: s}
	if !strings.ContainsAny(s, "{}") {
		return c, nil
	}
	for rest := s; ; {
		text, after, open := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return c, errBraces
		}
		c.parts = append(c.parts, text)
		if !open {
			return c, nil
		}
		name, next, closed := strings.Cut(after, "}")
		if !closed || name == "" || strings.Contains(name, "{") {
			return c, errBraces
		}
		c.parts, rest = append(c.parts, name), next
	}
}

var errBraces = errors.New("a column's name stands in braces, such as id=gsm8k/{doc_id}")

// String returns the map as it was given.
func (m Map) String() string { return m.written }

// Given reports whether there is a map.
func (m Map) Given() bool { return m.columns != nil }

// template reports whether the column is a text with names in it.
func (c column) template() bool { return c.parts != nil }

// fill puts the values of a sample in the place of names.
func (c column) fill(s sample, lacks func(name string) error) (string, error) {
	var out strings.Builder
	for i, part := range c.parts {
		if i%2 == 0 {
			out.WriteString(part)
			continue
		}
		n := s.get(part)
		if n == nil {
			return "", lacks(part)
		}
		text, ok := scalar(n)
		if !ok {
			return "", source.Problemf(n.Pos, "%q must be a string or a number, not %s", part, n.Kind)
		}
		out.WriteString(text)
	}
	return out.String(), nil
}
