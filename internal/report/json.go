package report

import (
	"fmt"
	"io"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// WriteJSON writes the report as one JSON object and a newline. It is ASCII
// only, like a record, and has no <, > or &: neither a terminal nor a page
// that the text is pasted into takes any of it for its own. A byte that is not
// UTF-8 becomes U+FFFD.
func (r *Report) WriteJSON(w io.Writer) error {
	b, err := json.Marshal(r, jsontext.EscapeForHTML(true), jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if _, err = w.Write(append(ascii(b), '\n')); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// ascii escapes the characters of JSON outside printable ASCII. They occur
// only inside strings, where that is always allowed; newlines are our own.
func ascii(b []byte) []byte {
	out := make([]byte, 0, len(b)+1)
	for _, r := range string(b) {
		if r < 0x7f {
			out = append(out, byte(r))
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, u)
		}
	}
	return out
}
