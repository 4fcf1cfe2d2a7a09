package toolcall

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"securebench/internal/family/toolcall/calls"
)

// meetsOfficially reports whether a call has what is expected by the rule of BFCL's own
// scorer: types as Python's and one level deep, texts in a normal form, lists in order. A
// parameter that may be left out accepts an empty text as well, as there.
func (e expected) meetsOfficially(c calls.Call) bool {
	if c.Arguments.Kind != calls.Dict {
		return false
	}
	required, _ := e.tool.parameters.Get("required")
	for _, r := range required.Items {
		if _, there := c.Arguments.Get(r.Text); !there {
			return false
		}
	}
	for _, m := range c.Arguments.Members {
		schema, known := e.tool.properties().Get(m.Name)
		i := slices.IndexFunc(e.accepted, func(a accepted) bool { return a.name == m.Name })
		if !known || i < 0 || !newParameter(schema, e.accepted[i]).takes(m.Value) {
			return false
		}
	}
	for _, a := range e.accepted {
		if _, there := c.Arguments.Get(a.name); !there && !a.omissible() {
			return false
		}
	}
	return true
}

// empty is how the data set says that a parameter may be left out.
func empty() calls.Value { return calls.Value{Kind: calls.String} }

func isEmpty(v calls.Value) bool { return v.Kind == calls.String && v.Text == "" }

// omissible reports whether the parameter may be left out.
func (a accepted) omissible() bool { return a.optional || slices.ContainsFunc(a.values, isEmpty) }

// parameter is how the scorer sees a parameter.
type parameter struct {
	declared, inner calls.Kind // of it and its items; Invalid is none that it knows
	float, tuple    bool
	values          []calls.Value
}

func newParameter(schema calls.Value, a accepted) parameter {
	p := parameter{values: a.values}
	if a.optional {
		p.values = append(slices.Clip(p.values), empty())
	}
	name, _ := schema.Get("type")
	p.declared, p.float, p.tuple = pythonKind(name.Text), name.Text == "float" || name.Text == "number", name.Text == "tuple"
	if p.declared == calls.List {
		items, _ := schema.Get("items")
		inner, _ := items.Get("type")
		p.inner = pythonKind(inner.Text)
	}
	return p
}

// pythonKind is the type that the scorer takes a declared type for.
func pythonKind(name string) calls.Kind {
	switch name {
	case "string", "any":
		return calls.String
	case "integer":
		return calls.Int
	case "float", "number":
		return calls.Float
	case "boolean":
		return calls.Bool
	case "array", "tuple":
		return calls.List
	case "dict", "object":
		return calls.Dict
	}
	return calls.Invalid
}

// firstKind is the type of the first accepted value.
func firstKind(values []calls.Value) calls.Kind {
	for _, v := range values {
		if !isEmpty(v) {
			return v.Kind
		}
	}
	return calls.Invalid
}

// takes reports whether the scorer accepts a value.
func (p parameter) takes(v calls.Value) bool {
	if p.tuple && v.Kind == calls.Tuple {
		v.Kind = calls.List
	}
	if p.float && v.Kind == calls.Int {
		f, err := strconv.ParseFloat(v.Text, 64)
		if err != nil {
			return false
		}
		v = calls.Value{Kind: calls.Float, Text: strconv.FormatFloat(f, 'g', -1, 64)}
	}
	kind := firstKind(p.values)
	// Where the accepted values have another type than the declared one, the scorer takes
	// them for names of variables.
	variable := kind != calls.Invalid && kind != p.declared
	switch {
	case v.Kind == calls.Invalid:
		return false
	case v.Kind == p.declared:
		if p.declared == calls.List && !p.itemsFit(v.Items) {
			return false
		}
	case kind == calls.Invalid || v.Kind != kind:
		return false
	default:
		variable = true
	}
	if variable {
		return contains(p.values, v)
	}
	switch {
	case p.declared == calls.Dict:
		return takesDict(v, p.values)
	case p.declared == calls.List && p.inner == calls.Dict:
		return p.takesDicts(v)
	case p.declared == calls.String:
		return slices.ContainsFunc(p.values, func(w calls.Value) bool {
			return w.Kind == calls.String && normal(w.Text) == normal(v.Text)
		})
	case p.declared == calls.List:
		return p.takesList(v)
	}
	return contains(p.values, v)
}

// itemsFit holds the items of a list to the types of one accepted list.
func (p parameter) itemsFit(items []calls.Value) bool {
	return slices.ContainsFunc(p.values, func(w calls.Value) bool {
		if w.Kind != calls.List {
			return true
		}
		kind := firstKind(w.Items)
		return !slices.ContainsFunc(items, func(item calls.Value) bool {
			return item.Kind != p.inner && (kind == calls.Invalid || item.Kind != kind)
		})
	})
}

// takesList compares a list with those that are accepted.
func (p parameter) takesList(v calls.Value) bool {
	list := calls.Value{Kind: calls.List, Items: normalItems(v.Items)}
	return slices.ContainsFunc(p.values, func(w calls.Value) bool {
		return python(list, calls.Value{Kind: calls.List, Items: normalItems(members(w))})
	})
}

// members are the items of a list, and the letters of a text, which Python goes through
// alike.
func members(v calls.Value) []calls.Value {
	if v.Kind != calls.String {
		return v.Items
	}
	out := make([]calls.Value, 0, utf8.RuneCountInString(v.Text))
	for _, r := range v.Text {
		out = append(out, calls.Value{Kind: calls.String, Text: string(r)})
	}
	return out
}

func normalItems(items []calls.Value) []calls.Value {
	out := make([]calls.Value, len(items))
	for i, v := range items {
		out[i] = normalValue(v)
	}
	return out
}

func normalValue(v calls.Value) calls.Value {
	if v.Kind == calls.String {
		v.Text = normal(v.Text)
	}
	return v
}

// takesDicts compares a list of objects with those that are accepted.
func (p parameter) takesDicts(v calls.Value) bool {
	return slices.ContainsFunc(p.values, func(w calls.Value) bool {
		want := members(w)
		if len(want) != len(v.Items) {
			return false
		}
		for i, item := range v.Items {
			if item.Kind != calls.Dict || !takesDict(item, want[i:i+1]) {
				return false
			}
		}
		return true
	})
}

// takesDict compares an object with those that are accepted, each of which has lists of
// accepted values.
func takesDict(v calls.Value, values []calls.Value) bool {
	return slices.ContainsFunc(values, func(w calls.Value) bool {
		if w.Kind != calls.Dict {
			return false
		}
		for _, m := range v.Members {
			want, known := w.Get(m.Name)
			if !known || !contains(normalItems(members(want)), normalValue(m.Value)) {
				return false
			}
		}
		for _, m := range w.Members {
			_, there := v.Get(m.Name)
			if !there && m.Value.Kind != calls.String && !slices.ContainsFunc(m.Value.Items, isEmpty) {
				return false
			}
		}
		return true
	})
}

// normal is the form in which the scorer compares texts. It loses signs and points.
func normal(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" ,./-_*^", r) {
			return -1
		}
		return r
	}, s)
	if strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		s = cases.Lower(language.Und).String(s)
	} else {
		s = strings.ToLower(s)
	}
	return strings.ReplaceAll(s, "'", `"`)
}

func contains(values []calls.Value, v calls.Value) bool {
	return slices.ContainsFunc(values, func(w calls.Value) bool { return python(w, v) })
}

// python compares values as Python's == does: True is 1, 5 is 5.0, and a tuple is no list.
func python(a, b calls.Value) bool {
	x, y := numeric(a), numeric(b)
	switch {
	case a.Kind == calls.Invalid, b.Kind == calls.Invalid:
		return false
	case x != nil && y != nil:
		return x.Cmp(y) == 0
	case a.Kind != b.Kind:
		return false
	case a.Kind == calls.List, a.Kind == calls.Tuple:
		return equalLists(a.Items, b.Items, python)
	case a.Kind == calls.Dict:
		return equalMembers(a, b, python)
	case x != nil || y != nil || isNumber(a): // infinite
		return false
	}
	return a.Text == b.Text
}

// numeric is the value of a number as Python has it, or nil.
func numeric(v calls.Value) *big.Float {
	switch v.Kind {
	case calls.Bool:
		if v.True {
			return big.NewFloat(1)
		}
		return new(big.Float)
	case calls.Int:
		if len(v.Text) > maxInteger { // the time to read it grows with its square
			return nil
		}
		n, ok := new(big.Int).SetString(v.Text, 10)
		if !ok {
			return nil
		}
		return new(big.Float).SetPrec(0).SetInt(n)
	case calls.Float:
		f, err := strconv.ParseFloat(v.Text, 64)
		if err != nil {
			return nil
		}
		return big.NewFloat(f)
	}
	return nil
}

// maxInteger is the most digits of an integer that is compared, as many as Python reads.
const maxInteger = 4300
