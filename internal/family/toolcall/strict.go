package toolcall

import (
	"errors"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"securebench/internal/family/toolcall/calls"
	"securebench/internal/source"
	"securebench/internal/toolschema"
)

// validator holds arguments to a tool's parameters.
type validator struct{ schema *jsonschema.Schema }

// noLoader keeps schemas from referring to other documents.
type noLoader struct{}

var errReference = errors.New("a tool's parameters may not refer to another document")

// Load returns an error for every address.
func (noLoader) Load(string) (any, error) { return nil, errReference }

func newValidator(parameters calls.Value) (validator, error) {
	document, ok := plain(parameters)
	if !ok {
		return validator{}, errors.New("it has a number that is too long")
	}
	const address = "tool:///parameters"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(address, toolschema.Standard(document)); err != nil {
		return validator{}, err
	}
	s, err := c.Compile(address)
	return validator{s}, err
}

// takes reports whether the parameters allow arguments.
func (v validator) takes(arguments calls.Value) bool {
	value, ok := plain(arguments)
	return ok && v.schema.Validate(value) == nil
}

// maxNumber bounds the length of a number and its exponent: the validator works numbers
// out exactly.
const maxNumber = 400

// plain is a value as the validator takes it; false if it has a part that no JSON has, or
// a number beyond its bounds.
func plain(v calls.Value) (any, bool) {
	switch v.Kind {
	case calls.Null:
		return nil, true
	case calls.Bool:
		return v.True, true
	case calls.Int, calls.Float:
		d, ok := newDecimal(v.Text)
		number := &source.Node{Kind: source.Number, Text: v.Text} // which the validator takes as it is written
		return number.Any(), ok && len(v.Text) <= maxNumber && d.exponent < maxNumber && d.exponent > -maxNumber
	case calls.String:
		return v.Text, true
	case calls.List, calls.Tuple:
		out := make([]any, len(v.Items))
		for i, item := range v.Items {
			var ok bool
			if out[i], ok = plain(item); !ok {
				return nil, false
			}
		}
		return out, true
	case calls.Dict:
		out := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			var ok bool
			if out[m.Name], ok = plain(m.Value); !ok {
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}

// decimal is a number by its digits, without zeros at either end.
type decimal struct {
	minus    bool
	digits   string
	exponent int // of the last digit
}

// newDecimal reads a number in JSON.
func newDecimal(text string) (d decimal, ok bool) {
	text, d.minus = strings.CutPrefix(text, "-")
	mantissa, power, has := strings.Cut(strings.ToLower(text), "e")
	if has {
		n, err := strconv.ParseInt(power, 10, 32)
		if err != nil {
			return decimal{}, false
		}
		d.exponent = int(n)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits) - len(fraction)
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

// equal compares values as JSON: numbers by their value, objects by their members.
func equal(a, b calls.Value) bool {
	switch {
	case a.Kind == calls.Invalid, b.Kind == calls.Invalid:
		return false
	case isNumber(a) && isNumber(b):
		x, okX := newDecimal(a.Text)
		y, okY := newDecimal(b.Text)
		return okX && okY && x == y
	case isList(a) && isList(b):
		return equalLists(a.Items, b.Items, equal)
	case a.Kind != b.Kind:
		return false
	case a.Kind == calls.Dict:
		return equalMembers(a, b, equal)
	}
	return a.True == b.True && a.Text == b.Text
}

func isNumber(v calls.Value) bool { return v.Kind == calls.Int || v.Kind == calls.Float }

func isList(v calls.Value) bool { return v.Kind == calls.List || v.Kind == calls.Tuple }

func equalLists(a, b []calls.Value, same func(a, b calls.Value) bool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}

func equalMembers(a, b calls.Value, same func(a, b calls.Value) bool) bool {
	if len(a.Members) != len(b.Members) {
		return false
	}
	for _, m := range a.Members {
		if other, ok := b.Get(m.Name); !ok || !same(m.Value, other) {
			return false
		}
	}
	return true
}

// meets reports whether a call has what is expected, by the rule json.
func (e expected) meets(c calls.Call, schema validator) bool {
	if c.Arguments.Kind != calls.Dict {
		return false
	}
	given := 0
	for _, a := range e.accepted {
		v, there := c.Arguments.Get(a.name)
		if !there {
			if !a.optional || e.tool.requires(a.name) {
				return false
			}
			continue
		}
		given++
		if !a.has(v) {
			return false
		}
	}
	return given == len(c.Arguments.Members) && schema.takes(c.Arguments)
}

// has reports whether a value is accepted, by the rule json.
func (a accepted) has(v calls.Value) bool {
	for _, w := range a.values {
		if equal(v, w) {
			return true
		}
	}
	return false
}
