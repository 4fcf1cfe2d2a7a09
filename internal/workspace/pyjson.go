package workspace

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"securebench/internal/source"
)

// The files that agents and checkers read contain the same bytes as the
// reference's: indent 2, sorted keys, ASCII only, a final newline, and numbers
// as Python prints them.

// encodeObject writes an object of named values.
func encodeObject(values map[string]*source.Node) []byte {
	n := &source.Node{Kind: source.Map}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		n.Fields = append(n.Fields, source.Field{Name: name, Value: values[name]})
	}
	return encodeValue(n)
}

// encodeValue writes one value.
func encodeValue(n *source.Node) []byte {
	return append(appendValue(nil, n, 0), '\n')
}

func appendValue(b []byte, n *source.Node, depth int) []byte {
	switch n.Kind {
	case source.Bool:
		return append(b, n.Text...)
	case source.Number:
		return append(b, pythonNumber(n.Text)...)
	case source.String:
		return appendASCII(b, n.Text)
	case source.List:
		return appendList(b, n, depth)
	case source.Map:
		return appendMap(b, n, depth)
	}
	return append(b, "null"...)
}

func appendList(b []byte, n *source.Node, depth int) []byte {
	if len(n.Items) == 0 {
		return append(b, "[]"...)
	}
	for i, it := range n.Items {
		b = appendLine(b, "[", i, depth+1)
		b = appendValue(b, it, depth+1)
	}
	return append(newline(b, depth), ']')
}

func appendMap(b []byte, n *source.Node, depth int) []byte {
	if len(n.Fields) == 0 {
		return append(b, "{}"...)
	}
	// Python orders by code point, which is the order of UTF-8 bytes.
	fields := slices.SortedFunc(slices.Values(n.Fields), func(x, y source.Field) int {
		return strings.Compare(x.Name, y.Name)
	})
	for i, f := range fields {
		b = appendLine(b, "{", i, depth+1)
		b = appendASCII(b, f.Name)
		b = append(b, ": "...)
		b = appendValue(b, f.Value, depth+1)
	}
	return append(newline(b, depth), '}')
}

// appendLine starts the line of member i.
func appendLine(b []byte, open string, i, depth int) []byte {
	if i == 0 {
		b = append(b, open...)
	} else {
		b = append(b, ',')
	}
	return newline(b, depth)
}

func newline(b []byte, depth int) []byte {
	return append(append(b, '\n'), strings.Repeat("  ", depth)...)
}

func appendASCII(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r >= ' ' && r <= '~':
			b = append(b, byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}

// pythonNumber prints a finite JSON number as Python's repr does: integers as
// written, floats with the fewest digits that round-trip, and an exponent
// below 1e-4 and from 1e16.
func pythonNumber(lit string) string {
	if !strings.ContainsAny(lit, ".eE") {
		if lit == "-0" {
			return "0"
		}
		return lit
	}
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		return lit // not finite; the parser rejects these
	}
	_, e, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	exp, err := strconv.Atoi(e)
	if err == nil && f != 0 && (exp < -4 || exp >= 16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
