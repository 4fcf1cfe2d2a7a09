package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxNesting bounds how deep lists of tools and content may lie in each other.
// No agent nests more than two of them.
const maxNesting = 4

// whole calls each for every field of a body: an object of the API's own. It
// refuses repeated names and invalid UTF-8 at any depth, so that what each gets is
// known to be valid.
func whole(body jsontext.Value, each field) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body)) // which is strict
	if d.PeekKind() != '{' {
		return invalid("an object was expected")
	}
	if _, err := d.ReadToken(); err != nil {
		return notJSON(err)
	}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return notJSON(err)
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		end := int(d.InputOffset()) // the value itself changes with the next token
		if err := each(name, body[end-len(value):end:end]); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return notJSON(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return invalid("something follows the JSON text")
	}
	return nil
}

// field is called for a field of an object.
type field func(name string, value jsontext.Value) error

// lowered returns a name, which must be lower-case, as those of most APIs are: a provider
// that ignores case must not see a field that was not checked.
func lowered(name string) (string, error) {
	if strings.ToLower(name) != name {
		return "", refuse(unknownField, "the field %.40q is not known", name)
	}
	return name, nil
}

// object calls each for every field of an object within a body, which [whole] has
// found to be valid.
func object(v jsontext.Value, each field) error {
	return walk(v, '{', "an object was expected", func(s *scanner) error {
		name, ok := text(s.value())
		if !ok || !s.Skip(':') {
			return errScan
		}
		value := s.value()
		if value == nil {
			return errScan
		}
		if _, err := lowered(name); err != nil {
			return err
		}
		return each(name, value)
	})
}

// array calls each for every element of an array within a body.
func array(v jsontext.Value, each func(value jsontext.Value) error) error {
	return walk(v, '[', "an array was expected", func(s *scanner) error {
		value := s.value()
		if value == nil {
			return errScan
		}
		return each(value)
	})
}

// Member returns a member of an object, the last of that name, or nil. The text is known
// to be JSON.
func Member(v jsontext.Value, name string) (out jsontext.Value) {
	_ = walk(v, '{', "", func(s *scanner) error {
		quoted := s.value()
		if quoted.Kind() != '"' || len(quoted) < 2 || !s.Skip(':') {
			return errScan
		}
		value := s.value()
		if value == nil {
			return errScan
		}
		if string(unquotedName(quoted)) == name {
			out = value
		}
		return nil
	})
	return out
}

// Elements calls each for the elements of an array, until that returns false. The text is
// known to be JSON.
func Elements(v jsontext.Value, each func(jsontext.Value) bool) {
	_ = array(v, func(value jsontext.Value) error {
		if !each(value) {
			return errStop
		}
		return nil
	})
}

// errStop ends a walk.
var errStop = errors.New("no more is wanted")

// text returns a string.
func text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' || len(v) < 2 {
		return "", false
	}
	if in := v[1 : len(v)-1]; Plain(in) {
		return string(in), true
	}
	out, err := jsontext.AppendUnquote(nil, v)
	return string(out), err == nil
}

// Plain reports whether a part of a string means itself, as most do.
func Plain(v []byte) bool {
	for _, c := range v {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// empty reports whether a value is absent, null, false or an empty list, so that
// it asks for nothing.
func empty(v jsontext.Value) bool {
	switch v.Kind() {
	case 'n', 'f':
		return true
	case '[':
		return len(bytes.TrimSpace(v[1:len(v)-1])) == 0
	}
	return len(v) == 0
}

func absent(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

func invalid(what string) *Refusal { return &Refusal{invalidBody, what} }

// notJSON keeps the decoder's message out: it quotes the text.
func notJSON(err error) *Refusal {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName) {
		return invalid("the body has a repeated field")
	}
	return invalid("the body is not JSON in UTF-8")
}
