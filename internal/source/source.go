// Package source reads the files that users name and the YAML and JSON that they
// write, strictly, and reports where a problem is.
//
// Both formats become one tree of [Node] values with positions, so a rule is
// written once and its error always names file, line and column. Duplicate keys,
// invalid UTF-8, trailing data, a second document, numbers that are not finite
// and nesting deeper than [maxDepth] are errors.
package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"securebench/internal/redact"
)

// maxDepth is the maximum nesting of lists and maps.
const maxDepth = 64

// Pos is a position in a file. Line and Col count from 1; a zero Line means the
// file as a whole. Col counts characters, not bytes.
type Pos struct {
	File string
	Line int
	Col  int
}

// String formats p as file:line:column.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// A Problem is one error in a file that a user wrote.
type Problem struct {
	Pos     Pos
	Message string // what is wrong
	Fix     string // what to do about it; may be empty
}

// Error formats the problem as one line: position, message, fix. The line is
// escaped and the message cut, because file names and keys can be chosen by
// anybody.
func (p *Problem) Error() string {
	s := p.Pos.String() + ": " + redact.EscapeShort(p.Message, maxMessage)
	if p.Fix != "" {
		s += " (" + p.Fix + ")"
	}
	return redact.Escape(s)
}

// maxMessage is the length in characters at which a message is cut.
const maxMessage = 4000

// Problemf makes a Problem at pos without a fix.
func Problemf(pos Pos, format string, args ...any) *Problem {
	return &Problem{Pos: pos, Message: fmt.Sprintf(format, args...)}
}

// Problems is a list of problems.
type Problems []*Problem

// Add appends a problem at pos.
func (ps *Problems) Add(pos Pos, fix, format string, args ...any) {
	*ps = append(*ps, &Problem{Pos: pos, Message: fmt.Sprintf(format, args...), Fix: fix})
}

// Err returns all problems joined, one per line, or nil if there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// foreign is a file that is not text as it is, known by its first bytes.
type foreign struct{ head, message, fix string }

func notText() []foreign {
	return []foreign{
		{"\x1f\x8b", "the file is compressed with gzip", "unpack it with gunzip"},
		{"\x28\xb5\x2f\xfd", "the file is compressed with zstd", "unpack it with unzstd"},
		{"\xfd7zXZ", "the file is compressed with xz", "unpack it with unxz"},
		{"BZh", "the file is compressed with bzip2", "unpack it with bunzip2"},
		{"PK\x03\x04", "the file is a zip archive", "unpack it with unzip"},
		{"PAR1", "the file is in the format Parquet", "convert it to JSON lines, such as with DuckDB or pandas"},
		{"\xff\xfe", "the file is in UTF-16", "save it as UTF-8"},
		{"\xfe\xff", "the file is in UTF-16", "save it as UTF-8"},
	}
}

// CheckHead refuses a file that is not text, by its first bytes.
func CheckHead(file string, head []byte) *Problem {
	for _, known := range notText() {
		if bytes.HasPrefix(head, []byte(known.head)) {
			return &Problem{Pos: Pos{File: file, Line: 1, Col: 1}, Message: known.message, Fix: known.fix}
		}
	}
	return nil
}

// CheckText refuses what is no text in UTF-8, with the position in the file.
func CheckText(file string, data []byte) *Problem { return checkText(file, 1, data) }

// checkText refuses a byte order mark and bytes that are not UTF-8, with their
// position. The first line has the number line.
func checkText(file string, line int, data []byte) *Problem {
	pos := Pos{File: file, Line: line, Col: 1}
	if line == 1 {
		if p := CheckHead(file, data); p != nil {
			return p
		}
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return &Problem{Pos: pos, Message: "the file has a byte order mark", Fix: "save the file as UTF-8 without one"}
	}
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			return &Problem{Pos: pos, Message: "the file has a byte that is not UTF-8", Fix: "save the file as UTF-8"}
		}
		pos.Col++
		if r == '\n' {
			pos.Line, pos.Col = pos.Line+1, 1
		}
		rest = rest[size:]
	}
	return nil
}

// Kind is the type of a node's value.
type Kind uint8

// The kinds of a [Node]. The zero Kind is Null.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

// String names k as in an error message: "an object", "a list".
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

// Node is one value with its position.
type Node struct {
	Pos    Pos
	Kind   Kind
	Text   string  // the string, the number's literal in JSON syntax, or true/false
	Items  []*Node // of a List
	Fields []Field // of a Map, in file order
	// Plain is an unquoted YAML scalar as written, if it is not a string or Odd
	// is set. Odd means that YAML readers disagree about its value: 010 is 8,
	// 10 or text.
	Plain string
	Odd   bool
}

// Field is one member of a Map.
type Field struct {
	Name  string
	Pos   Pos // of the name
	Value *Node
}

// Get returns the value of field name, or nil. It is safe on a nil node.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return n.Fields[i].Value
		}
	}
	return nil
}

// At returns the node at the JSON pointer with these tokens, or its deepest
// existing ancestor. It is safe on a nil node.
func (n *Node) At(tokens []string) *Node {
	for _, t := range tokens {
		if n == nil {
			return nil
		}
		next := n.Get(t)
		if next == nil && n.Kind == List {
			if i, err := strconv.Atoi(t); err == nil && i >= 0 && i < len(n.Items) {
				next = n.Items[i]
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// Any returns the value as map[string]any, []any, string, [json.Number],
// bool or nil.
func (n *Node) Any() any {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case Bool:
		return n.Text == "true"
	case Number:
		return json.Number(n.Text)
	case String:
		return n.Text
	case List:
		out := make([]any, len(n.Items))
		for i, it := range n.Items {
			out[i] = it.Any()
		}
		return out
	case Map:
		out := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			out[f.Name] = f.Value.Any()
		}
		return out
	}
	return nil
}

// JSON returns the value as compact JSON, with members in file order and numbers
// as written.
func (n *Node) JSON() []byte {
	return n.appendJSON(nil)
}

func (n *Node) appendJSON(b []byte) []byte {
	switch {
	case n == nil || n.Kind == Null:
		return append(b, "null"...)
	case n.Kind == Bool || n.Kind == Number:
		return append(b, n.Text...)
	case n.Kind == String:
		return appendString(b, n.Text)
	case n.Kind == List:
		b = append(b, '[')
		for i, it := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = it.appendJSON(b)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for i, f := range n.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, f.Name)
		b = append(b, ':')
		b = f.Value.appendJSON(b)
	}
	return append(b, '}')
}

// Closed adds an error for each field of map n that is not in known.
func (ps *Problems) Closed(n *Node, section string, known ...string) {
	errs, _ := n.Check(section, false, known...)
	*ps = append(*ps, errs...)
}

// Check reports the fields of map n that are not in known: as errors, or as
// warnings if open is set. A name that differs from a known one only in case is
// always an error.
func (n *Node) Check(section string, open bool, known ...string) (errs, warnings Problems) {
	for _, f := range n.Fields {
		if slices.Contains(known, f.Name) {
			continue
		}
		near := Nearest(f.Name, known)
		fix := "known: " + strings.Join(known, ", ")
		if near != "" {
			fix = fmt.Sprintf("did you mean %q?", near)
		}
		switch {
		case near != "" && strings.EqualFold(near, f.Name):
			errs.Add(f.Pos, "write "+near, "%s has field %q in the wrong case", section, f.Name)
		case open:
			warnings.Add(f.Pos, fix, "%s has unknown field %q, which is ignored", section, f.Name)
		default:
			errs.Add(f.Pos, fix, "%s contains unsupported field %q", section, f.Name)
		}
	}
	return errs, warnings
}
