package console

import (
	"bytes"
	"io"
	"strings"
)

// Columns returns how many columns the terminal behind w has, 0 if there is none.
func Columns(w io.Writer) int {
	if s, ok := w.(interface{ Columns() int }); ok {
		return s.Columns()
	}
	return 0
}

// Folder writes lines to a terminal of so many columns so that none is longer: a
// terminal would continue it at the left edge, where text from outside could pass
// for a line of securebench's. What does not fit is put in further lines after the
// bar that the first one has, or behind spaces. Without a terminal nothing changes.
type Folder struct {
	w       io.Writer
	columns int
	line    []byte // that is not whole yet
}

// NewFolder returns a folder for lines on w, which has so many columns, 0 for none.
func NewFolder(w io.Writer, columns int) *Folder { return &Folder{w: w, columns: columns} }

// Write writes the lines that are whole. Flush writes the rest.
func (f *Folder) Write(p []byte) (int, error) {
	if f.columns == 0 {
		return f.w.Write(p)
	}
	f.line = append(f.line, p...)
	end := bytes.LastIndexByte(f.line, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	if err := f.write(string(f.line[:end])); err != nil {
		return 0, err
	}
	f.line = append(f.line[:0], f.line[end:]...)
	return len(p), nil
}

// Columns returns how many columns the terminal has: tables ask for it.
func (f *Folder) Columns() int { return f.columns }

// Flush writes a line that has no end.
func (f *Folder) Flush() error {
	if len(f.line) == 0 {
		return nil
	}
	rest := string(f.line)
	f.line = nil
	return f.write(rest)
}

func (f *Folder) write(lines string) error {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		text, whole := strings.CutSuffix(line, "\n")
		out.WriteString(strings.Join(foldLine(text, f.columns), "\n"))
		if whole {
			out.WriteByte('\n')
		}
	}
	_, err := io.WriteString(f.w, out.String())
	return err
}

// hang is the indentation of further rows of a line without a bar.
const hang = 4

// foldLine breaks a line into rows of at most so many columns.
func foldLine(line string, columns int) []string {
	body := strings.TrimLeft(line, " ")
	prefix := line[:len(line)-len(body)]
	if strings.HasPrefix(body, "| ") {
		prefix += "| "
	} else {
		prefix += strings.Repeat(" ", hang)
	}
	if len(prefix) > columns-2 { // no room for a prefix and a wide letter
		prefix = "|"
	}
	f := folding{columns: columns, prefix: prefix}
	for word := range strings.SplitAfterSeq(line, " ") {
		f.word(word)
	}
	return append(f.rows, f.row.String())
}

// folding is a line that is being broken.
type folding struct {
	columns int
	prefix  string // of the rows after the first
	rows    []string
	row     strings.Builder
	at      int // in the row
}

func (f *folding) next() {
	f.rows = append(f.rows, f.row.String())
	f.row.Reset()
	f.row.WriteString(f.prefix)
	f.at = len(f.prefix)
}

// word adds a word with the space behind it. It is broken only if it fits in no row.
func (f *folding) word(word string) {
	bare := strings.TrimSuffix(word, " ")
	end := f.at
	for _, r := range bare {
		_, width := cell(r, end)
		end += width
	}
	if end > f.columns && end-f.at <= f.columns-len(f.prefix) && f.at > len(f.prefix) {
		f.next()
	}
	for _, r := range bare {
		text, width := cell(r, f.at)
		if f.at+width > f.columns && f.at > len(f.prefix) {
			f.next()
			text, width = cell(r, f.at)
		}
		f.row.WriteString(text)
		f.at += width
	}
	switch {
	case len(bare) == len(word):
	case f.at < f.columns:
		f.row.WriteByte(' ')
		f.at++
	default:
		f.next() // instead of the space
	}
}

// tabStop is how far apart a terminal's stops are.
const tabStop = 8

// cell returns what to print for a character in a column, and the most columns that
// it may take. A tab becomes spaces, because one near the edge would hide how far a
// line goes.
func cell(r rune, at int) (text string, width int) {
	switch {
	case r == '\t':
		n := tabStop - at%tabStop
		return strings.Repeat(" ", n), n
	case r < 0x1100: // the first wide letters are those of Hangul
		return string(r), 1
	}
	return string(r), 2
}
