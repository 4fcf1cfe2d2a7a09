// Package calls reads the calls of tools that a text states: JSON in the forms that
// models write, elements named tool_call, and the list of calls in Python's syntax. It
// keeps the reading of untrusted text apart from the rules that compare what was read.
// Nothing is evaluated or looked up: what is no literal has no value that equals another.
package calls

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is the type of a value, in Python's distinction of numbers and lists.
type Kind uint8

// The kinds. A value that is Invalid equals none: it was no literal, or has a key twice.
const (
	Invalid Kind = iota
	Null
	Bool
	Int
	Float
	String
	List
	Tuple
	Dict
)

// Value is an argument, or a value that is accepted for one.
type Value struct {
	Kind    Kind
	True    bool    // of a Bool
	Text    string  // of a String; a number as JSON writes it
	Items   []Value // of a List or Tuple
	Members []Member
}

// Member is an argument of a call, or a member of an object.
type Member struct {
	Name  string
	Value Value
}

// Get returns the member with a name.
func (v Value) Get(name string) (Value, bool) {
	for _, m := range v.Members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return Value{}, false
}

// MaxDepth is how deep values may be nested, and maxMembers how many members one may have.
const (
	MaxDepth   = 100
	maxMembers = 1000
)

var (
	errDepth = errors.New("is nested too deep")
	errMore  = errors.New("more follows the value")
	errWide  = errors.New("has too many members")
)

// ParseJSON reads one JSON value: no key twice, no invalid UTF-8, nothing after it.
func ParseJSON(text []byte) (Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	v, err := readJSON(d)
	if err != nil {
		return Value{}, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return Value{}, errMore
	}
	return v, nil
}

func readJSON(d *jsontext.Decoder) (Value, error) {
	if d.StackDepth() > MaxDepth {
		return Value{}, errDepth
	}
	t, err := d.ReadToken()
	if err != nil {
		return Value{}, err
	}
	switch t.Kind() {
	case 'n':
		return Value{Kind: Null}, nil
	case 't', 'f':
		return Value{Kind: Bool, True: t.Bool()}, nil
	case '"':
		return Value{Kind: String, Text: t.String()}, nil
	case '0':
		return number(t.String()), nil
	case '[':
		return readList(d)
	}
	return readObject(d)
}

func readList(d *jsontext.Decoder) (Value, error) {
	out := Value{Kind: List}
	for d.PeekKind() != ']' {
		v, err := readJSON(d)
		if err != nil {
			return Value{}, err
		}
		out.Items = append(out.Items, v)
	}
	_, err := d.ReadToken()
	return out, err
}

func readObject(d *jsontext.Decoder) (Value, error) {
	out := Value{Kind: Dict}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return Value{}, err
		}
		if len(out.Members) == maxMembers {
			return Value{}, errWide
		}
		key := name.String() // before the next token is read
		v, err := readJSON(d)
		if err != nil {
			return Value{}, err
		}
		out.Members = append(out.Members, Member{key, v})
	}
	_, err := d.ReadToken()
	return out, err
}

// number is a number by its JSON text.
func number(text string) Value {
	if strings.ContainsAny(text, ".eE") {
		return Value{Kind: Float, Text: text}
	}
	return Value{Kind: Int, Text: text}
}

// JSON writes a value as JSON, with the members in their order; false if it has no JSON.
func (v Value) JSON() ([]byte, bool) { return v.append(nil) }

func (v Value) append(b []byte) ([]byte, bool) {
	switch v.Kind {
	case Invalid:
		return nil, false
	case Null:
		return append(b, "null"...), true
	case Bool:
		return strconv.AppendBool(b, v.True), true
	case Int, Float:
		return append(b, v.Text...), true
	case String:
		b, err := jsontext.AppendQuote(b, v.Text)
		return b, err == nil
	case Dict:
		return v.object(b)
	}
	b = append(b, '[')
	for i, item := range v.Items {
		if i > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = item.append(b); !ok {
			return nil, false
		}
	}
	return append(b, ']'), true
}

func (v Value) object(b []byte) ([]byte, bool) {
	b = append(b, '{')
	for i, m := range v.Members {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = jsontext.AppendQuote(b, m.Name); err != nil {
			return nil, false
		}
		var ok bool
		if b, ok = m.Value.append(append(b, ':')); !ok {
			return nil, false
		}
	}
	return append(b, '}'), true
}
