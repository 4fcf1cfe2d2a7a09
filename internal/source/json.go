package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxNumber is the maximum length of a number literal in bytes. Together with the
// range of a float64 it also bounds the exponent, so that exact arithmetic stays
// fast.
const maxNumber = 400

// maxJSONNodes is the maximum number of values in a document: each takes far more
// memory than the two bytes that are enough to write one.
const maxJSONNodes = 1 << 22

// ParseJSON reads exactly one JSON value; its first line is line of file.
// Errors are [*Problem].
func ParseJSON(file string, line int, data []byte) (*Node, error) {
	return parseJSON(file, line, data, maxJSONNodes)
}

func parseJSON(file string, line int, data []byte, nodes int) (*Node, error) {
	if p := checkText(file, line, data); p != nil {
		return nil, p
	}
	p := &jsonParser{file: file, line: line, data: data, nodes: nodes,
		dec: jsontext.NewDecoder(bytes.NewReader(data))}
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	end := p.here()
	switch _, err := p.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return n, nil
	default:
		return nil, Problemf(end, "data follows the JSON value")
	}
}

type jsonParser struct {
	file  string
	line  int
	data  []byte
	dec   *jsontext.Decoder
	nodes int // how many more values there can be
	// Positions are computed in increasing order; the last one is kept so that
	// a long line is scanned only once.
	off, curLine, curCol int
}

func (p *jsonParser) pos(off int64) Pos {
	o := min(int(off), len(p.data))
	if o < p.off || p.curLine == 0 {
		p.off, p.curLine, p.curCol = 0, p.line, 1
	}
	for p.off < o {
		r, size := utf8.DecodeRune(p.data[p.off:])
		p.off += size
		p.curCol++
		if r == '\n' {
			p.curLine++
			p.curCol = 1
		}
	}
	return Pos{File: p.file, Line: p.curLine, Col: p.curCol}
}

// here is the position of the next token.
func (p *jsonParser) here() Pos {
	o := int(p.dec.InputOffset())
	for o < len(p.data) && strings.IndexByte(" \t\r\n,:", p.data[o]) >= 0 {
		o++
	}
	return p.pos(int64(o))
}

func (p *jsonParser) fail(err error) error {
	off := p.dec.InputOffset()
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		off = syn.ByteOffset
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return &Problem{Pos: p.pos(off), Message: fmt.Sprintf("invalid JSON: duplicate key %q", syn.JSONPointer.LastToken()), Fix: "remove one of the two"}
		}
		err = syn.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Problem{Pos: p.pos(off), Message: "invalid JSON: the value is cut off", Fix: "close its quotes, brackets and braces; in a file of lines, a value is on one line"}
	}
	return &Problem{Pos: p.pos(off), Message: fmt.Sprintf("invalid JSON: %v", err), Fix: jsonFix(err.Error())}
}

// jsonFix says what is usually meant by an error.
func jsonFix(message string) string {
	switch {
	case strings.Contains(message, `'\''`):
		return `use double quotes: "`
	case strings.Contains(message, "after object value"), strings.Contains(message, "after array element"):
		return "write a comma before it, or close what is open"
	case strings.Contains(message, "',' at start of value"), strings.Contains(message, "'}' at start of"), strings.Contains(message, "']' at start of"),
		strings.Contains(message, "at start of string"):
		return "remove the comma before it, or write what is missing"
	case strings.Contains(message, "at start of value"):
		return "write a finite number, true, false, null, a list, an object, or text in double quotes"
	case strings.Contains(message, "non-control character"), strings.Contains(message, "escape sequence"):
		return `write a line break in text as \n, and a backslash as \\`
	}
	return ""
}

func (p *jsonParser) value(depth int) (*Node, error) {
	n := &Node{Pos: p.here()}
	if p.nodes--; p.nodes < 0 {
		return nil, Problemf(n.Pos, "the JSON has more than %d values", maxJSONNodes)
	}
	if depth > maxDepth {
		return nil, Problemf(n.Pos, "nesting is deeper than %d", maxDepth)
	}
	tok, err := p.dec.ReadToken()
	if err != nil {
		return nil, p.fail(err)
	}
	switch tok.Kind() {
	case 't', 'f':
		n.Kind, n.Text = Bool, tok.String()
	case '"':
		n.Kind, n.Text = String, tok.String()
	case '0':
		n.Kind, n.Text = Number, tok.String()
		if fault := numberFault(n.Text); fault != "" {
			return nil, Problemf(n.Pos, "the number %s", fault)
		}
	case '[':
		n.Kind = List
		err = p.items(n, depth)
	case '{':
		n.Kind = Map
		err = p.fields(n, depth)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// items reads the members of list n and its closing bracket.
func (p *jsonParser) items(n *Node, depth int) error {
	for p.dec.PeekKind() != ']' {
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	return p.closing()
}

// fields reads the members of map n and its closing brace. The decoder
// refuses duplicate names.
func (p *jsonParser) fields(n *Node, depth int) error {
	for p.dec.PeekKind() != '}' {
		at := p.here()
		name, err := p.dec.ReadToken()
		if err != nil {
			return p.fail(err)
		}
		field := Field{Name: name.String(), Pos: at}
		if field.Value, err = p.value(depth + 1); err != nil {
			return err
		}
		n.Fields = append(n.Fields, field)
	}
	return p.closing()
}

func (p *jsonParser) closing() error {
	if _, err := p.dec.ReadToken(); err != nil {
		return p.fail(err)
	}
	return nil
}

// numberFault returns what is wrong with a number literal, or "".
func numberFault(lit string) string {
	f, err := strconv.ParseFloat(lit, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(lit), "e")
	switch {
	case len(lit) > maxNumber:
		return "has more than " + strconv.Itoa(maxNumber) + " characters"
	case err != nil:
		return "is too large"
	case f == 0 && strings.ContainsAny(mantissa, "123456789"):
		return "is too close to zero"
	}
	return ""
}

func appendString(b []byte, s string) []byte {
	// Strings in a Node are valid UTF-8, so quoting cannot fail.
	out, err := jsontext.AppendQuote(b, s)
	if err != nil {
		panic("source: string is not valid UTF-8")
	}
	return out
}
