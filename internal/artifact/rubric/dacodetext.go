package rubric

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/family/textmatch"
	"securebench/internal/source"
)

// dacodeText is compare_text of DA-Code: each member of the reference must be in the
// result, whatever else is there. Values take the type of the reference's.
type dacodeText struct{ order string }

func readDacodeText(n *source.Node) (rule, source.Problems) {
	r := &dacodeText{order: asIs}
	var ps source.Problems
	ps.Closed(n, "a rubric of type json with match", "type", "match", "order")
	var match string
	source.Optional(&ps, n, "match", &match, one(dacode))
	source.Optional(&ps, n, "order", &r.order, one(asIs, anyOrder))
	return r, ps
}

func (r *dacodeText) official() string { return dacode }

func (r *dacodeText) check(want *artifact.File) []string {
	if res, err := r.compare(want, want); err == nil && !res.Pass {
		return []string{"the rule of DA-Code compares no null, true, false or empty list: " + strings.Join(res.Differences, "; ")}
	}
	return nil
}

func (r *dacodeText) compare(got, want *artifact.File) (Result, error) {
	if want.Text == nil {
		return Result{}, errors.New("the reference is no JSON to compare with")
	}
	w, err := readData(*want.Text)
	if err != nil {
		return Result{}, fmt.Errorf("the reference: %w", err)
	}
	if w.kind != '{' || len(w.names) == 0 {
		return Result{}, errors.New("the reference is no object with members")
	}
	if got.Text == nil {
		return fail("the file is no JSON"), nil
	}
	g, err := readData(*got.Text)
	if err != nil {
		// The scorer tries again with other quotes.
		if g, err = readData(strings.ReplaceAll(*got.Text, "'", `"`)); err != nil {
			return fail("the file: %v", err), nil
		}
	}
	object := firstObject(&g)
	if object == nil {
		return fail("the file has no object"), nil
	}
	have := make(map[string]*node, len(object.names))
	for i, name := range object.names {
		have[pyName(name)] = &object.items[i]
	}
	var d differences
	for i, name := range w.names {
		switch g := have[pyName(name)]; {
		case g == nil:
			d.add("%s is missing", shown(name))
		case !r.member(&w.items[i], g):
			d.add("%s: %s is not %s", shown(name), g, &w.items[i])
		}
	}
	return d.result(), nil
}

// pyName is the form in which names are compared.
func pyName(s string) string { return strings.ToLower(textmatch.Strip(s)) }

// firstObject is a value that is an object, or the first in a list.
func firstObject(n *node) *node {
	if n.kind == '{' {
		return n
	}
	if n.kind == '[' {
		for i := range n.items {
			if n.items[i].kind == '{' {
				return &n.items[i]
			}
		}
	}
	return nil
}

// member compares two members. A list of one value is that value where both are then of a
// type.
func (r *dacodeText) member(want, got *node) bool {
	w, g := alone(want), alone(got)
	switch {
	case pyKindOf(w) == pyKindOf(g):
		want, got = w, g
	case want.kind == '[' && got.kind != '[':
		got = &node{kind: '[', items: []node{*got}}
	case want.kind != '[' && got.kind == '[':
		want = &node{kind: '[', items: []node{*want}}
	}
	cast, ok := castTo(pyKindOf(want), got)
	return ok && r.same(want, cast)
}

func alone(n *node) *node {
	if n.kind == '[' && len(n.items) == 1 {
		return &n.items[0]
	}
	return n
}

func pyKindOf(n *node) pyKind {
	switch n.kind {
	case '{':
		return pyDict
	case '[':
		return pyList
	case '"':
		return pyStr
	case '0':
		if strings.ContainsAny(n.value.text, ".eE") {
			return pyFloat
		}
		return pyInt
	case 't', 'f':
		return pyBool
	}
	return pyNone
}

// castTo is what Python makes of a value that is passed to a type.
func castTo(kind pyKind, n *node) (*node, bool) {
	if pyKindOf(n) == kind {
		return n, true
	}
	switch kind {
	case pyStr:
		return stringNode(pyText(n)), true
	case pyInt, pyFloat:
		v, ok := pyNumber(n)
		if ok && kind == pyInt {
			_, isInt := strconv.ParseInt(strings.TrimSpace(n.value.text), 10, 64)
			ok = n.kind != '"' || isInt == nil
			v = math.Trunc(v)
		}
		text := floatText(v)
		if kind == pyInt {
			text = strconv.FormatFloat(v, 'f', -1, 64)
		}
		return &node{kind: '0', value: scalar{number, text, v}}, ok
	}
	return nil, false // no type that the scorer compares, or a list: member makes both one
}

func stringNode(s string) *node { return &node{kind: '"', value: scalar{kind: text, text: s}} }

// pyNumber is a number, a truth or a text of one.
func pyNumber(n *node) (float64, bool) {
	switch n.kind {
	case '0':
		return n.value.number, true
	case 't':
		return 1, true
	case 'f':
		return 0, true
	case '"':
		v, ok := pyFloatOf(textmatch.Strip(n.value.text))
		return v, ok && finite(v)
	}
	return 0, false
}

// same compares two values of one type.
func (r *dacodeText) same(want, got *node) bool {
	kind := pyKindOf(want)
	if kind != pyKindOf(got) {
		return false
	}
	switch kind {
	case pyStr:
		return equalPyText(want.value.text, got.value.text)
	case pyInt:
		return want.value.text == got.value.text || want.value.kind == number && want.value.number == got.value.number
	case pyFloat:
		return math.Abs(want.value.number-got.value.number) <= dacodeTolerance
	case pyList:
		return r.sameList(want, got)
	case pyDict:
		if len(want.names) == 0 || len(want.names) != len(got.names) {
			return false
		}
		for i, name := range want.names {
			if g := got.get(name); g == nil || !r.same(&want.items[i], g) {
				return false
			}
		}
		return true
	}
	return false // the scorer has no comparison of these
}

func (r *dacodeText) sameList(want, got *node) bool {
	if len(want.items) == 0 || len(want.items) != len(got.items) {
		return false
	}
	a, b := want.items, got.items
	if r.order == anyOrder {
		a, b = sortedByText(a), sortedByText(b)
	}
	for i := range a {
		if !r.same(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// sortedByText sorts by what str returns, None last.
func sortedByText(items []node) []node {
	keys := make([]py, len(items))
	for i := range items {
		keys[i] = py{kind: pyKindOf(&items[i]), number: float64(i), text: pyText(&items[i])}
	}
	sortPy(keys, true)
	out := make([]node, len(items))
	for i, k := range keys {
		out[i] = items[int(k.number)]
	}
	return out
}

// pyText is what Python's str returns, but for the escapes of texts inside others.
func pyText(n *node) string {
	if n.kind == '"' {
		return n.value.text
	}
	return string(appendRepr(nil, n))
}

func appendRepr(b []byte, n *node) []byte {
	switch n.kind {
	case '{', '[':
		b = append(b, byte(n.kind))
		for i := range n.items {
			if i > 0 {
				b = append(b, ", "...)
			}
			if n.kind == '{' {
				b = append(append(append(b, '\''), n.names[i]...), "': "...)
			}
			b = appendRepr(b, &n.items[i])
		}
		return append(b, byte(n.kind+2))
	case '"':
		return append(append(append(b, '\''), n.value.text...), '\'')
	case '0':
		if pyKindOf(n) == pyFloat {
			return append(b, floatText(n.value.number)...)
		}
		return append(b, n.value.text...)
	case 't':
		return append(b, "True"...)
	case 'f':
		return append(b, "False"...)
	}
	return append(b, "None"...)
}
