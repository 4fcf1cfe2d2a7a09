package toolcall

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/toolcall/calls"
	"securebench/internal/toolschema"
)

// The rules of comparison.
const (
	ruleJSON = "json"
	ruleBFCL = "bfcl"
)

// tool is a tool of a row.
type tool struct {
	name       string
	parameters calls.Value // as the row has them
}

// properties are the schemas of the tool's parameters.
func (t tool) properties() calls.Value {
	p, _ := t.parameters.Get("properties")
	return p
}

// requires reports whether a call must have a parameter.
func (t tool) requires(name string) bool {
	list, _ := t.parameters.Get("required")
	return slices.ContainsFunc(list.Items, func(v calls.Value) bool { return v.Kind == calls.String && v.Text == name })
}

// expected is a call that must be stated.
type expected struct {
	tool     tool
	accepted []accepted
}

// accepted are the values that a parameter may have.
type accepted struct {
	name     string
	values   []calls.Value
	optional bool // it may be left out, as far as the tool lets it
}

// match says how calls are compared.
type match struct {
	Rule   string   `json:"rule"`
	Order  string   `json:"order"`
	Extra  string   `json:"extra"`
	State  string   `json:"state"`
	Ignore []string `json:"ignore"`
}

// key is what a row expects.
type key struct {
	tools    []tool
	expected []expected
	match    match
	schemas  []validator // of the expected calls, for the rule json
}

// place is an error with its place in the row.
type place struct {
	path []string
	err  error
}

// Error returns the message.
func (p *place) Error() string { return p.err.Error() }

func at(err error, path ...string) error { return &place{path, err} }

// newKey reads what a row of stated calls expects.
func newKey(tools, list, how jsontext.Value) (*key, error) {
	k := &key{}
	var err error
	if k.tools, err = readTools(tools); err != nil {
		return nil, err
	}
	if len(how) > 0 {
		if err := json.Unmarshal(how, &k.match); err != nil {
			return nil, at(fmt.Errorf("cannot be read: %w", err), "eval", "match")
		}
	}
	if k.match.Rule == "" {
		k.match.Rule = ruleJSON
	}
	v, err := calls.ParseJSON(list)
	if err != nil {
		return nil, at(fmt.Errorf("cannot be read: %w", err), "eval", "expected_calls")
	}
	for i, item := range v.Items {
		path := []string{"eval", "expected_calls", strconv.Itoa(i)}
		e, err := k.expect(item, path)
		if err != nil {
			return nil, err
		}
		k.expected = append(k.expected, e)
		if k.match.Rule == ruleJSON {
			s, err := newValidator(e.tool.parameters)
			if err != nil {
				return nil, at(fmt.Errorf("names a tool whose parameters are no JSON Schema: %w", err), path...)
			}
			k.schemas = append(k.schemas, s)
		}
	}
	return k, nil
}

// readTools reads the tools of a row.
func readTools(text jsontext.Value) (out []tool, err error) {
	v, err := calls.ParseJSON(text)
	if err != nil {
		return nil, at(fmt.Errorf("cannot be read: %w", err), "input", "tools")
	}
	for i, item := range v.Items {
		name, _ := item.Get("name")
		parameters, _ := item.Get("parameters")
		if slices.ContainsFunc(out, func(t tool) bool { return t.name == name.Text }) {
			return nil, at(fmt.Errorf("has the name %q of another tool", name.Text), "input", "tools", strconv.Itoa(i), "name")
		}
		out = append(out, tool{name.Text, parameters})
	}
	return out, nil
}

// expect reads one expected call.
func (k *key) expect(item calls.Value, path []string) (e expected, err error) {
	name, _ := item.Get("name")
	i := slices.IndexFunc(k.tools, func(t tool) bool { return t.name == name.Text })
	if i < 0 {
		return e, at(fmt.Errorf("names no tool of the row: %q", name.Text), append(path, "name")...)
	}
	e.tool = k.tools[i]
	arguments, one := item.Get("arguments")
	several, many := item.Get("accepted")
	if one && many {
		return e, at(errors.New("has both arguments and accepted"), path...)
	}
	optional, _ := item.Get("optional")
	for _, m := range append(arguments.Members, several.Members...) {
		a := accepted{name: m.Name, values: []calls.Value{m.Value}}
		if many {
			a.values = m.Value.Items
		}
		a.optional = slices.ContainsFunc(optional.Items, func(v calls.Value) bool { return v.Text == m.Name })
		e.accepted = append(e.accepted, a)
	}
	for _, v := range optional.Items {
		if !slices.ContainsFunc(e.accepted, func(a accepted) bool { return a.name == v.Text }) {
			return e, at(fmt.Errorf("names %q, for which no value is accepted", v.Text), append(path, "optional")...)
		}
	}
	return e, nil
}

// names are what calls may name the tools.
func (k *key) names() (out []string) {
	for _, t := range k.tools {
		out = append(out, t.name, toolschema.Name(t.name))
	}
	return out
}

// find returns the tool that a call names: by its name, or by the name that providers of
// models make of it, if that is no other tool's as well.
func (k *key) find(c calls.Call) (name string, ok bool) {
	for _, t := range k.tools {
		if t.name == c.Name {
			return t.name, true
		}
	}
	if c.Source && k.match.Rule == ruleBFCL {
		return "", false // the scorer takes such names only from a provider's interface
	}
	for _, t := range k.tools {
		if toolschema.Name(t.name) == c.Name {
			if ok {
				return "", false
			}
			name, ok = t.name, true
		}
	}
	return name, ok
}
