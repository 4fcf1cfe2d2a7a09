package console

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
)

// WriteJSON writes a value, which errors call what, as one JSON object and a newline. It
// is ASCII and has no <, > or &, so it is safe on a terminal and in a web page. A byte
// that is not UTF-8 becomes U+FFFD.
func WriteJSON(w io.Writer, what string, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.EscapeForHTML(true), jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encoding %s: %w", what, err)
	}
	if _, err = w.Write(append(redact.ASCII(b), '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	return nil
}
