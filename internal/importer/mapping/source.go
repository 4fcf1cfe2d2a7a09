package mapping

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// origin says where a field's values come from: the right side of field=column. What it
// means depends on the columns that there are, so each table binds it anew.
type origin struct {
	field string // the left side
	text  string
}

// parseOrigins reads field=column arguments.
func parseOrigins(given []string) ([]origin, error) {
	var out []origin
	for _, text := range given {
		name, from, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" || from == "" {
			return nil, fmt.Errorf("--map is %q: write FIELD=COLUMN", text)
		}
		if slices.ContainsFunc(out, func(o origin) bool { return o.field == name }) {
			return nil, fmt.Errorf("--map gives the field %q twice: to join columns write %s=COLUMN+COLUMN", name, name)
		}
		out = append(out, origin{name, from})
	}
	return out, nil
}

// bound is an origin for the columns of one table.
type bound struct {
	origin
	constant *source.Node
	parts    []part // of a text with columns in it
	columns  []selector
}

// part is a piece of a text: as it is, or a column.
type part struct {
	text   string
	column *selector
}

// selector takes a value out of a row: a column, what is below it, what a pattern finds.
type selector struct {
	text    string // as written
	column  string
	path    []string
	pattern *regexp.Regexp
}

var placeholder = lazyregexp.New(`\{([^{}\n"]+)\}`)

// bind reads an origin. The first that fits counts: a column of that name, a JSON value, a
// text with {column} in it, a column with a pattern, columns between plus signs.
func (o origin) bind(columns []string) (bound, error) {
	b := bound{origin: o}
	if slices.Contains(columns, o.text) {
		b.columns = []selector{{text: o.text, column: o.text}}
		return b, nil
	}
	if v := jsontext.Value(o.text); v.IsValid() {
		node, err := source.ParseJSON("--map "+o.field, 1, []byte(o.text))
		b.constant = node
		return b, err
	}
	if placeholder.MatchString(o.text) && !strings.Contains(o.text, "~") {
		return b, b.template(columns)
	}
	if column, pattern, ok := strings.Cut(o.text, "~"); ok {
		s, err := selectorOf(column, columns)
		if err != nil {
			return b, o.fail(err)
		}
		if s.pattern, err = regexp.Compile(pattern); err != nil {
			return b, o.fail(fmt.Errorf("the pattern cannot be read: %w", err))
		}
		s.text, b.columns = o.text, []selector{s}
		return b, nil
	}
	for _, name := range strings.Split(o.text, "+") {
		s, err := selectorOf(strings.TrimSpace(name), columns)
		if err != nil {
			return b, o.fail(err)
		}
		b.columns = append(b.columns, s)
	}
	return b, nil
}

func (o origin) fail(err error) error { return fmt.Errorf("--map %s=%s: %w", o.field, o.text, err) }

// template reads a text with {column} in it; {{ and }} are braces.
func (b *bound) template(columns []string) error {
	rest := strings.NewReplacer("{{", "\x00", "}}", "\x01").Replace(b.text)
	braces := strings.NewReplacer("\x00", "{", "\x01", "}")
	for {
		at := placeholder.FindStringSubmatchIndex(rest)
		if at == nil {
			b.parts = append(b.parts, part{text: braces.Replace(rest)})
			return nil
		}
		s, err := selectorOf(rest[at[2]:at[3]], columns)
		if err != nil {
			return b.fail(fmt.Errorf("%w (write {{ and }} for braces)", err))
		}
		b.parts = append(b.parts, part{text: braces.Replace(rest[:at[0]])}, part{column: &s})
		rest = rest[at[1]:]
	}
}

// selectorOf finds the column that a name begins with.
func selectorOf(name string, columns []string) (selector, error) {
	if slices.Contains(columns, name) {
		return selector{text: name, column: name}, nil
	}
	for end := strings.LastIndexByte(name, '.'); end > 0; end = strings.LastIndexByte(name[:end], '.') {
		if slices.Contains(columns, name[:end]) {
			return selector{text: name, column: name[:end], path: strings.Split(name[end+1:], ".")}, nil
		}
	}
	if near := source.Nearest(name, columns); near != "" {
		return selector{}, fmt.Errorf("there is no column %q: did you mean %q?", name, near)
	}
	return selector{}, fmt.Errorf("there is no column %q: the columns are %s", name, someOf(columns))
}

// someOf lists names, not all of very many.
func someOf(names []string) string {
	const most = 30
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// needs lists the columns that a bound origin takes from.
func (b bound) needs() (out []string) {
	for _, s := range b.columns {
		out = append(out, s.column)
	}
	for _, p := range b.parts {
		if p.column != nil {
			out = append(out, p.column.column)
		}
	}
	return out
}

// of takes the value out of a row. A value that is missing is null.
func (s selector) of(row *source.Node) (*source.Node, *source.Problem) {
	n := below(row.Get(s.column), s.path, row.Pos)
	if s.pattern == nil || blank(n) {
		return n, nil
	}
	text, p := textOf(n, s.column)
	if p != nil {
		return nil, p
	}
	m := s.pattern.FindStringSubmatch(text)
	if m == nil {
		return nil, &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("the column %q has nothing that %s finds", s.column, s.pattern), Fix: "correct the pattern, or leave such rows out with --where or --leave-out"}
	}
	return &source.Node{Pos: n.Pos, Kind: source.String, Text: m[len(m)-1]}, nil
}

// below follows a path: a name of an object, a position of a list, or a name of every
// object of a list.
func below(n *source.Node, path []string, at source.Pos) *source.Node {
	for i, step := range path {
		if n == nil {
			break
		}
		if n.Kind != source.List {
			n = n.Get(step)
			continue
		}
		if index, err := strconv.Atoi(step); err == nil {
			if index < 0 || index >= len(n.Items) {
				n = nil
				break
			}
			n = n.Items[index]
			continue
		}
		out := &source.Node{Pos: n.Pos, Kind: source.List}
		for _, item := range n.Items {
			out.Items = append(out.Items, below(item, path[i:], n.Pos))
		}
		return out
	}
	if n == nil {
		return &source.Node{Pos: at}
	}
	return n
}

// values takes what the field has in a row: one value for each column, or one in all.
func (b bound) values(row *source.Node) ([]*source.Node, *source.Problem) {
	switch {
	case b.constant != nil:
		return []*source.Node{b.constant}, nil
	case b.parts != nil:
		n, p := b.filled(row)
		return []*source.Node{n}, p
	}
	out := make([]*source.Node, len(b.columns))
	for i, s := range b.columns {
		n, p := s.of(row)
		if p != nil {
			return nil, p
		}
		out[i] = n
	}
	return out, nil
}

// filled puts the columns into a text. Without any of them there is no text.
func (b bound) filled(row *source.Node) (*source.Node, *source.Problem) {
	var text strings.Builder
	var at *source.Node
	for _, p := range b.parts {
		if p.column == nil {
			text.WriteString(p.text)
			continue
		}
		n, problem := p.column.of(row)
		if problem != nil {
			return nil, problem
		}
		if blank(n) {
			return nil, &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("the column %q, which goes into %s, is empty", p.column.text, b.field), Fix: leaveOut}
		}
		if at == nil {
			at = n
		}
		s, problem := textOf(n, p.column.text)
		if problem != nil {
			return nil, problem
		}
		text.WriteString(s)
	}
	return &source.Node{Pos: at.Pos, Kind: source.String, Text: text.String()}, nil
}

// leaveOut is what can be done about rows that cannot be tasks.
const leaveOut = "correct the row, or leave such rows out with --where or --leave-out"

// blank reports whether a value says nothing.
func blank(n *source.Node) bool {
	return n == nil || n.Kind == source.Null || n.Kind == source.String && strings.TrimSpace(n.Text) == "" || n.Kind == source.List && len(n.Items) == 0
}

// textOf writes a value as a text.
func textOf(n *source.Node, what string) (string, *source.Problem) {
	switch n.Kind {
	case source.String, source.Number, source.Bool:
		return n.Text, nil
	case source.Null:
		return "", nil
	}
	return "", &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("%s is %s, which is no text", what, n.Kind), Fix: "name what is below it, such as " + what + ".text"}
}
