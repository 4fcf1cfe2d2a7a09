package table

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"securebench/internal/source"
)

// byteOrderMark begins a text in UTF-8 that some spreadsheets write.
const byteOrderMark = "\ufeff"

// record is one line of a delimited file, as its cells with their places.
type record struct {
	cells []string
	at    func(i int) source.Pos
}

// delimited reads CSV and TSV, whose first line names the columns.
type delimited struct {
	name    string
	columns []string
	record  func() (record, error)
}

func (f *File) openDelimited(text *bufio.Reader, format string, o Options) error {
	if head, err := text.Peek(len(byteOrderMark)); err == nil && string(head) == byteOrderMark {
		if _, err := text.Discard(len(byteOrderMark)); err != nil {
			return f.unreadable(err)
		}
	}
	comma := o.Delimiter
	switch {
	case comma == 0 && format == TSV:
		comma = '\t'
	case comma == 0:
		comma = ','
	}
	d := &delimited{name: f.Name}
	if d.record = quotedRecords(text, f.Name, comma); o.NoQuotes {
		d.record = plainRecords(text, f.Name, string(comma))
	}
	f.rows = d
	if err := d.header(comma); err != nil {
		return err
	}
	for _, name := range d.columns {
		f.Columns = append(f.Columns, Column{Name: name, Type: "text"})
	}
	return nil
}

// header reads the names of the columns.
func (d *delimited) header(comma rune) error {
	head, err := d.record()
	if errors.Is(err, io.EOF) {
		return &source.Problem{Pos: source.Pos{File: d.name}, Message: "the file has no line", Fix: "the first line must name the columns"}
	}
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, name := range head.cells {
		switch {
		case !utf8.ValidString(name):
			return notUTF8(head.at(i), fmt.Sprintf("the name of column %d", i+1))
		case strings.Contains(name, "\x00"):
			return nulByte(head.at(i), fmt.Sprintf("the name of column %d", i+1))
		case strings.TrimSpace(name) == "" && i == 0:
			name = "index" // what pandas writes unless it is told not to
		case strings.TrimSpace(name) == "":
			return &source.Problem{Pos: head.at(i), Message: fmt.Sprintf("column %d has no name", i+1), Fix: "the first line must name every column"}
		}
		if name = strings.TrimSpace(name); seen[name] {
			return &source.Problem{Pos: head.at(i), Message: fmt.Sprintf("the column %q is there twice", name), Fix: "rename one of the two"}
		}
		seen[name] = true
		d.columns = append(d.columns, name)
	}
	if other := strings.IndexAny(head.cells[0], ";\t|"); len(head.cells) == 1 && other >= 0 && head.cells[0][other] != byte(comma) {
		return &source.Problem{Pos: head.at(0), Message: fmt.Sprintf("there is one column only, whose name has %q in it", head.cells[0][other]),
			Fix: fmt.Sprintf("if that is between columns, give --delimiter '%s'", delimiterName(head.cells[0][other]))}
	}
	return nil
}

// delimiterName is how a delimiter is given.
func delimiterName(c byte) string {
	if c == '\t' {
		return "tab"
	}
	return string(c)
}

func (*delimited) close() error { return nil }

// next returns a row. An empty cell has no value.
func (d *delimited) next() (*source.Node, error) {
	rec, err := d.record()
	if err != nil {
		return nil, err
	}
	row := &source.Node{Pos: source.Pos{File: d.name, Line: rec.at(0).Line}, Kind: source.Map, Fields: make([]source.Field, len(rec.cells))}
	values := make([]source.Node, len(rec.cells))
	for i, cell := range rec.cells {
		pos := rec.at(i)
		switch {
		case !utf8.ValidString(cell):
			return nil, notUTF8(pos, fmt.Sprintf("the column %q", d.columns[i]))
		case strings.Contains(cell, "\x00"):
			return nil, nulByte(pos, fmt.Sprintf("the column %q", d.columns[i]))
		case strings.HasPrefix(cell, byteOrderMark):
			return nil, &source.Problem{Pos: pos, Message: fmt.Sprintf("the column %q begins with a byte order mark", d.columns[i]), Fix: "several files were joined: give them one by one"}
		case cell != "":
			values[i].Kind, values[i].Text = source.String, cell
		}
		values[i].Pos = pos
		row.Fields[i] = source.Field{Name: d.columns[i], Pos: pos, Value: &values[i]}
	}
	return row, nil
}

func notUTF8(at source.Pos, what string) *source.Problem {
	return &source.Problem{Pos: at, Message: what + " has a byte that is not UTF-8", Fix: "save the file as UTF-8, such as with iconv -f WINDOWS-1252 -t UTF-8"}
}

func nulByte(at source.Pos, what string) *source.Problem {
	return &source.Problem{Pos: at, Message: what + " has a NUL byte", Fix: "if the file is in UTF-16, save it as UTF-8"}
}

// quotedRecords reads with quotes as RFC 4180 has them.
func quotedRecords(text io.Reader, name string, comma rune) func() (record, error) {
	in := &limited{in: text}
	r := csv.NewReader(in)
	r.Comma, r.ReuseRecord = comma, true
	at := func(i int) source.Pos {
		line, col := r.FieldPos(i)
		return source.Pos{File: name, Line: line, Col: col}
	}
	var head, last int
	return func() (record, error) {
		in.left = maxLine
		cells, err := r.Read()
		if errors.Is(err, errLong) {
			return record{}, &source.Problem{Pos: source.Pos{File: name, Line: last + 1}, Message: fmt.Sprintf("the row is longer than %d MiB", maxLine>>20), Fix: "is a quote not closed?"}
		}
		if err != nil {
			return record{}, csvProblem(err, name, head, len(cells), comma)
		}
		if head == 0 {
			head = len(cells)
		}
		last, _ = r.FieldPos(len(cells) - 1)
		return record{cells, at}, nil
	}
}

// limited bounds what is read for one row: a quote that is not closed makes one of all
// that follows.
type limited struct {
	in   io.Reader
	left int
}

var errLong = errors.New("the row is too long")

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLong
	}
	n, err := l.in.Read(p)
	l.left -= n
	return n, err
}

// csvProblem says what is wrong with a line, and what to do.
func csvProblem(err error, name string, head, cells int, comma rune) error {
	var bad *csv.ParseError
	if !errors.As(err, &bad) {
		return err
	}
	p := &source.Problem{Pos: source.Pos{File: name, Line: bad.Line, Col: bad.Column}}
	switch {
	case errors.Is(bad.Err, csv.ErrFieldCount):
		p.Pos.Col = 0
		p.Message = fmt.Sprintf("the row has %d cells, and the first line names %d columns", cells, head)
		p.Fix = fmt.Sprintf("put a text with %q in it between double quotes, or remove what is too much", comma)
	case errors.Is(bad.Err, csv.ErrBareQuote):
		p.Message, p.Fix = "there is a quote inside a text that is not between quotes", "put the text between double quotes, and write its own twice; or give --no-quotes"
	case errors.Is(bad.Err, csv.ErrQuote):
		p.Message, p.Fix = "a quote is not closed, or text follows the one that closes", "write quotes inside a text twice; or give --no-quotes"
		if bad.StartLine != bad.Line {
			p.Message += fmt.Sprintf(": the text begins on line %d", bad.StartLine)
		}
	default:
		return err
	}
	return p
}

// plainRecords reads lines whose quotes mean nothing.
func plainRecords(text io.Reader, name, comma string) func() (record, error) {
	sc := bufio.NewScanner(text)
	sc.Buffer(nil, maxLine)
	line, columns := 0, 0
	return func() (record, error) {
		for sc.Scan() {
			line++
			if sc.Text() == "" {
				continue
			}
			cells := strings.Split(sc.Text(), comma)
			if columns == 0 {
				columns = len(cells)
			}
			pos := source.Pos{File: name, Line: line}
			if len(cells) != columns {
				return record{}, &source.Problem{Pos: pos, Message: fmt.Sprintf("the row has %d cells, and the first line names %d columns", len(cells), columns),
					Fix: "a text can hold neither the delimiter nor the end of a line, unless quotes count"}
			}
			return record{cells, func(i int) source.Pos {
				return source.Pos{File: name, Line: line, Col: 1 + utf8.RuneCountInString(strings.Join(cells[:i], comma)) + min(i, 1)}
			}}, nil
		}
		if errors.Is(sc.Err(), bufio.ErrTooLong) {
			return record{}, source.Problemf(source.Pos{File: name, Line: line + 1}, "the line is longer than %d MiB", maxLine>>20)
		}
		if sc.Err() != nil {
			return record{}, sc.Err()
		}
		return record{}, io.EOF
	}
}
