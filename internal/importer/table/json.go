package table

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/source"
)

// array reads the objects of one JSON list, one after the other.
type array struct {
	name  string
	dec   *jsontext.Decoder
	lines *lineCount
}

// openJSON reads a list of objects, or an object whose members are such lists, of which
// one is the table. A file that holds object after object is read as JSON lines.
func (f *File) openJSON(text *bufio.Reader, split string) error {
	lines := &lineCount{in: text}
	a := &array{name: f.Name, lines: lines, dec: jsontext.NewDecoder(lines)}
	switch a.dec.PeekKind() {
	case '[':
		if split != "" {
			return &source.Problem{Pos: a.here(), Message: "the file is one list, which has no parts", Fix: "leave out --split"}
		}
	case '{':
		return f.openMembers(a, split)
	case jsontext.KindInvalid:
		return a.fail(nil)
	default:
		return &source.Problem{Pos: a.here(), Message: "the file is neither a list of objects nor an object of such lists", Fix: "write a list of objects, or one object a line in a file named .jsonl"}
	}
	if _, err := a.dec.ReadToken(); err != nil {
		return a.fail(err)
	}
	f.rows = a
	return nil
}

// openMembers finds the list in an object.
func (f *File) openMembers(a *array, split string) error {
	at := a.here()
	if _, err := a.dec.ReadToken(); err != nil {
		return a.fail(err)
	}
	var names []string
	for a.dec.PeekKind() == '"' {
		name, err := a.dec.ReadToken()
		if err != nil {
			return a.fail(err)
		}
		key := name.String()
		if names = append(names, key); a.dec.PeekKind() != '[' || split != "" && key != split {
			if err := a.dec.SkipValue(); err != nil {
				return a.fail(err)
			}
			continue
		}
		if split == "" {
			return &source.Problem{Pos: at, Message: fmt.Sprintf("the file is an object, whose member %q is a list", key),
				Fix: fmt.Sprintf("if that is the table, give --split %s", key)}
		}
		if _, err := a.dec.ReadToken(); err != nil {
			return a.fail(err)
		}
		f.rows = a
		return nil
	}
	switch {
	case a.dec.PeekKind() == jsontext.KindInvalid:
		return a.fail(nil)
	case split != "":
		return &source.Problem{Pos: at, Message: fmt.Sprintf("the object has no list %q", split), Fix: "it has " + list(names)}
	}
	return &source.Problem{Pos: at, Message: "the file is one object without a list: that is no table of rows",
		Fix: "write a list of objects (pandas: orient=\"records\"), or one object a line in a file named .jsonl"}
}

func (*array) close() error { return nil }

// next returns the next object of the list.
func (a *array) next() (*source.Node, error) {
	switch a.dec.PeekKind() {
	case ']':
		return nil, io.EOF
	case jsontext.KindInvalid:
		return nil, a.fail(nil)
	}
	at := a.here()
	a.lines.bound = a.lines.read + maxLine
	value, err := a.dec.ReadValue()
	if errors.Is(err, errLong) {
		return nil, source.Problemf(at, "the row is longer than %d MiB", maxLine>>20)
	}
	if err != nil {
		return nil, a.fail(err)
	}
	a.lines.bound = 0
	node, err := source.ParseJSON(a.name, at.Line, value)
	if err != nil {
		return nil, err
	}
	return asRow(node)
}

// here is the place of the next value, by its line.
func (a *array) here() source.Pos {
	_ = a.dec.PeekKind() // which reads up to the value
	return source.Pos{File: a.name, Line: a.lines.at(a.dec.InputOffset(), a.dec.UnreadBuffer())}
}

// fail says what is wrong with the JSON, by its line. Without an error, the decoder is
// asked for it.
func (a *array) fail(err error) error {
	if err == nil {
		if _, err = a.dec.ReadToken(); err == nil {
			err = io.ErrUnexpectedEOF
		}
	}
	pos := a.here()
	var bad *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &source.Problem{Pos: pos, Message: "invalid JSON: the file ends before its list does", Fix: "was it written, or fetched, to its end?"}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &source.Problem{Pos: pos, Message: "invalid JSON: an object has a name twice", Fix: "remove one of the two"}
	case errors.As(err, &bad):
		return &source.Problem{Pos: pos, Message: "invalid JSON: " + bad.Err.Error(), Fix: "write JSON as json.dump does: names and texts between double quotes, no comma at the end"}
	}
	return err
}

// lineCount counts the lines of what was read, for places in it.
type lineCount struct {
	in   io.Reader
	ends []int64 // where lines end that were not passed yet
	read int64
	line int // lines that were passed

	bound int64 // where reading ends, because a row has no end there; 0 is nowhere
}

func (l *lineCount) Read(p []byte) (int, error) {
	if l.bound > 0 && l.read >= l.bound {
		return 0, errLong
	}
	n, err := l.in.Read(p)
	for rest, off := p[:n], l.read; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		off += int64(i) + 1
		l.ends = append(l.ends, off)
		rest = rest[i+1:]
	}
	l.read += int64(n)
	return n, err
}

// at returns the line of what follows an offset, which never falls: blanks and commas in
// front of it are passed.
func (l *lineCount) at(off int64, ahead []byte) int {
	off += int64(len(ahead) - len(bytes.TrimLeft(ahead, " \t\r\n,:")))
	n := 0
	for n < len(l.ends) && l.ends[n] <= off {
		n++
	}
	l.line, l.ends = l.line+n, l.ends[n:]
	return l.line + 1
}

// list puts names in a row.
func list(names []string) string {
	const most = 30
	var b bytes.Buffer
	for i, n := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(n)
	}
	return b.String()
}
