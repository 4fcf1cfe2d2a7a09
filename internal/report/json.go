package report

import (
	"io"

	"securebench/internal/console"
)

// WriteJSON writes the report as one JSON object and a newline. It is ASCII and
// has no <, > or &, so it is safe on a terminal and in a web page. A byte that
// is not UTF-8 becomes U+FFFD.
func (r *Report) WriteJSON(w io.Writer) error { return console.WriteJSON(w, "the report", r) }
