package rubric

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/source"
)

// jsonRule compares data.
type jsonRule struct {
	anyOrder bool // of every list
	patterns []pattern
	leniency
}

// pattern is a JSON pointer, of which a token * stands for any member or element, and
// what it asks for.
type pattern struct {
	pointer string
	tokens  []string
	ignore  bool // else: any order
}

func readJSON(n *source.Node) (rule, source.Problems) {
	if n.Get("match") != nil {
		return readDacodeText(n)
	}
	r := &jsonRule{}
	var ps source.Problems
	ps.Closed(n, "a rubric of type json", leniencyKeys("type", "ignore", "order", "match")...)
	r.read(&ps, n, "")
	var ignore []string
	source.Optional(&ps, n, "ignore", &ignore, texts)
	for _, p := range ignore {
		ps.Note(r.add(n, p, true))
	}
	o := n.Given("order")
	switch {
	case o == nil:
	case o.Kind == source.Map:
		for _, f := range o.Fields {
			if _, p := one(anyOrder)(f.Value, "order."+f.Name); !ps.Note(p) {
				ps.Note(r.add(o, f.Name, false))
			}
		}
	default:
		word, p := one(asIs, anyOrder)(o, "order")
		ps.Note(p)
		r.anyOrder = word == anyOrder
	}
	return r, ps
}

// add adds a pattern.
func (r *jsonRule) add(n *source.Node, pointer string, ignore bool) *source.Problem {
	if pointer != "" && pointer[0] != '/' || ignore && pointer == "" {
		return &source.Problem{Pos: n.Pos, Message: shown(pointer) + " is no JSON pointer to a part", Fix: "such as /rows/*/id"}
	}
	var tokens []string
	if pointer != "" {
		tokens = strings.Split(pointer[1:], "/")
	}
	for i, t := range tokens {
		tokens[i] = unescaped.Replace(t)
	}
	r.patterns = append(r.patterns, pattern{pointer, tokens, ignore})
	return nil
}

func (r *jsonRule) official() string { return "" }

func (r *jsonRule) compare(got, want *artifact.File) (Result, error) {
	if want.Text == nil {
		return Result{}, errors.New("the reference is no JSON to compare with")
	}
	w, err := readData(*want.Text)
	if err != nil {
		return Result{}, fmt.Errorf("the reference: %w", err)
	}
	if got.Text == nil {
		return fail("the file is no JSON"), nil
	}
	g, err := readData(*got.Text)
	if err != nil {
		return fail("the file: %v", err), nil
	}
	c := comparison{rule: r}
	c.compare(&g, &w, "", r.patterns)
	return c.result(), nil
}

// comparison is a comparison of data under way.
type comparison struct {
	rule *jsonRule
	differences
}

// below returns what patterns say of a member, and whether it is ignored.
func below(patterns []pattern, token string) (out []pattern, ignored bool) {
	for _, p := range patterns {
		if len(p.tokens) > 0 && (p.tokens[0] == token || p.tokens[0] == allColumns) {
			p.tokens = p.tokens[1:]
			ignored = ignored || p.ignore && len(p.tokens) == 0
			out = append(out, p)
		}
	}
	return out, ignored
}

// loose reports whether the elements of a list may come in any order.
func (r *jsonRule) loose(patterns []pattern) bool {
	return r.anyOrder || slices.ContainsFunc(patterns, func(p pattern) bool { return !p.ignore && len(p.tokens) == 0 })
}

// compare reports whether more differences are of any use.
func (c *comparison) compare(got, want *node, at string, patterns []pattern) bool {
	switch {
	case got.kind != want.kind:
	case want.kind == '{':
		return c.object(got, want, at, patterns)
	case want.kind == '[' && c.rule.loose(patterns):
		return c.anyList(got, want, at, patterns)
	case want.kind == '[':
		return c.list(got, want, at, patterns)
	case want.kind != '"' && want.kind != '0' || c.rule.equal(got.value, want.value):
		return true
	}
	return c.add("%s: %s is not %s", place(at), got, want)
}

// place is a pointer as messages show it.
func place(at string) string {
	if at == "" {
		return "the value"
	}
	return shown(at)
}

func under(at, token string) string {
	return at + "/" + escaped.Replace(token)
}

// escaped writes a token as a JSON Pointer does (RFC 6901), and unescaped reads it.
var (
	escaped   = strings.NewReplacer("~", "~0", "/", "~1") //nolint:gochecknoglobals // a constant
	unescaped = strings.NewReplacer("~1", "/", "~0", "~") //nolint:gochecknoglobals // a constant
)

func (c *comparison) object(got, want *node, at string, patterns []pattern) bool {
	for i, name := range want.names {
		inner, ignored := below(patterns, name)
		g := got.get(name)
		switch {
		case ignored:
		case g == nil:
			if !c.add("%s is missing", place(under(at, name))) {
				return false
			}
		case !c.compare(g, &want.items[i], under(at, name), inner):
			return false
		}
	}
	for _, name := range got.names {
		if _, ignored := below(patterns, name); !ignored && want.get(name) == nil && !c.add("%s is not wanted", place(under(at, name))) {
			return false
		}
	}
	return true
}

func (c *comparison) list(got, want *node, at string, patterns []pattern) bool {
	if len(got.items) != len(want.items) && !c.add("%s has %d elements, not %d", place(at), len(got.items), len(want.items)) {
		return false
	}
	for i := range min(len(got.items), len(want.items)) {
		token := strconv.Itoa(i)
		inner, ignored := below(patterns, token)
		if !ignored && !c.compare(&got.items[i], &want.items[i], under(at, token), inner) {
			return false
		}
	}
	return true
}

// anyList compares lists whose elements come in any order, each as a whole.
func (c *comparison) anyList(got, want *node, at string, patterns []pattern) bool {
	if len(got.items) != len(want.items) {
		return c.add("%s has %d elements, not %d", place(at), len(got.items), len(want.items))
	}
	u := unordered{got: c.rule.items(got, patterns), want: c.rule.items(want, patterns), what: place(at) + ": element"}
	numbers := make([]int, len(u.want)) // of the elements in their order, which u changes
	for i, w := range u.want {
		numbers[i] = len(w.numbers)
	}
	u.near = func(index int) []leniency { return slices.Repeat([]leniency{c.rule.leniency}, numbers[index]) }
	u.compare(&c.differences)
	return !c.more
}

// elements is what patterns say of each element of a list in any order: only * names one.
func elements(patterns []pattern) []pattern {
	out, _ := below(patterns, allColumns)
	return out
}

func (r *jsonRule) items(list *node, patterns []pattern) []item {
	out := make([]item, len(list.items))
	for i := range list.items {
		var f flat
		f.add(r, &list.items[i], elements(patterns))
		out[i] = item{keyOf(f.key), f.numbers, i}
	}
	return out
}

// flat is a value in one line: what must be equal, and the numbers that may differ.
type flat struct {
	key     []byte
	numbers []float64
}

func (f *flat) add(r *jsonRule, n *node, patterns []pattern) {
	f.key = append(f.key, byte(n.kind))
	switch n.kind {
	case '"', '0':
		if f.key = r.appendKey(f.key, n.value, true); r.leniency.loose(n.value) {
			f.numbers = append(f.numbers, n.value.number)
		}
	case '{':
		for i, name := range n.names {
			if inner, ignored := below(patterns, name); !ignored {
				f.key = strconv.AppendQuote(f.key, name)
				f.add(r, &n.items[i], inner)
			}
		}
		f.key = append(f.key, '}')
	case '[':
		f.addList(r, n, patterns)
		f.key = append(f.key, ']')
	}
}

func (f *flat) addList(r *jsonRule, n *node, patterns []pattern) {
	if !r.loose(patterns) {
		for i := range n.items {
			if inner, ignored := below(patterns, strconv.Itoa(i)); !ignored {
				f.add(r, &n.items[i], inner)
			}
		}
		return
	}
	parts := make([]flat, len(n.items))
	for i := range n.items {
		parts[i].add(r, &n.items[i], elements(patterns))
	}
	slices.SortFunc(parts, func(a, b flat) int {
		return cmp.Or(bytes.Compare(a.key, b.key), slices.Compare(a.numbers, b.numbers))
	})
	for _, p := range parts {
		f.key, f.numbers = append(f.key, p.key...), append(f.numbers, p.numbers...)
	}
}

func (r *jsonRule) check(want *artifact.File) (faults []string) {
	if want.Text == nil {
		return []string{"the reference is no JSON to compare with"}
	}
	w, err := readData(*want.Text)
	if err != nil {
		return []string{"the reference: " + err.Error()}
	}
	for _, p := range r.patterns {
		at := find(&w, p.tokens)
		switch {
		case at == nil:
			faults = append(faults, fmt.Sprintf("%s names what the reference lacks", shown(p.pointer)))
		case !p.ignore && at.kind != '[':
			faults = append(faults, fmt.Sprintf("order names %s, which is no list in the reference", shown(p.pointer)))
		}
	}
	return faults
}

// find returns a part that a pattern names, nil if there is none.
func find(n *node, tokens []string) *node {
	if len(tokens) == 0 {
		return n
	}
	for i := range n.items {
		name := strconv.Itoa(i)
		if n.kind == '{' {
			name = n.names[i]
		}
		if tokens[0] == name || tokens[0] == allColumns {
			if at := find(&n.items[i], tokens[1:]); at != nil {
				return at
			}
		}
	}
	return nil
}
