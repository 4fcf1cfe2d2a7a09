package report

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
)

// WriteJSON writes the report as one JSON object and a newline. It is ASCII and
// has no <, > or &, so it is safe on a terminal and in a web page. A byte that
// is not UTF-8 becomes U+FFFD.
func (r *Report) WriteJSON(w io.Writer) error {
	b, err := json.Marshal(r, jsontext.EscapeForHTML(true), jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if _, err = w.Write(append(redact.ASCII(b), '\n')); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
