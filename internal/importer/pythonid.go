package importer

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"securebench/internal/source"
)

// parseCase reads a test case: a list of two values.
func parseCase(line string) (*source.Node, error) {
	c, err := source.ParseJSON("case", 1, []byte(strings.TrimSpace(line)))
	if err != nil || c.Kind != source.List || len(c.Items) != 2 {
		return nil, fmt.Errorf("the test case %.60q is not a list of two values", line)
	}
	return c, nil
}

// paramID returns what pytest makes of a value in the id of a test: the value
// if it is simple, else the parameter's name and the number of the case.
func paramID(name string, i int, n *source.Node) string {
	switch n.Kind {
	case source.Null:
		return "None"
	case source.Bool:
		return map[string]string{"true": "True", "false": "False"}[n.Text]
	case source.Number:
		return pyNumber(n.Text)
	case source.String:
		return pyEscape(n.Text)
	case source.List, source.Map:
	}
	return name + strconv.Itoa(i)
}

// pyNumber renders a JSON number as Python prints it.
func pyNumber(literal string) string {
	if !strings.ContainsAny(literal, ".eE") {
		if literal == "-0" {
			return "0"
		}
		return literal
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return literal
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// pyEscape renders a string as pytest does in ids: in ASCII.
func pyEscape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}
