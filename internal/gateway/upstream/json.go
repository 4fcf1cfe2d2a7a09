package upstream

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
)

// Decode reads JSON of a provider's, and asks no more of it than that: nothing but
// the one answer depends on it.
func Decode(data []byte, to any) error {
	err := json.Unmarshal(data, to, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		err = fmt.Errorf("reading what the provider sends: %w", err)
	}
	return err
}

// Text is a text of a provider's, "" for anything else. It keeps bytes that are not
// UTF-8: the next piece may have the rest of a character.
type Text string

// UnmarshalJSON is lenient.
func (t *Text) UnmarshalJSON(v []byte) error {
	if jsontext.Value(v).Kind() != '"' {
		return nil
	}
	if utf8.Valid(v) {
		v, _ = jsontext.AppendUnquote(nil, v) // half of a character becomes U+FFFD
	} else {
		v = escapes.ReplaceAllFunc(v[1:len(v)-1], func(some []byte) []byte {
			some, _ = jsontext.AppendUnquote(nil, []byte(`"`+string(some)+`"`))
			return some
		})
	}
	*t = Text(v)
	return nil
}

// escapes are those of a JSON text that follow one another.
var escapes = lazyregexp.New(`(\\u[0-9A-Fa-f]{4}|\\[^u])+`)
