package source

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Lines reads JSON lines.
type Lines struct {
	name string
	sc   *bufio.Scanner
	most int
	n    int
}

// NewLines returns a reader of the lines of a file with a name, of which none may be longer
// than most bytes.
func NewLines(r io.Reader, name string, most int) *Lines {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, most)
	return &Lines{name: name, sc: sc, most: most}
}

// Next returns the value of the next line, or io.EOF. Blank lines are skipped but counted. An
// error of the reader is returned as it is.
func (l *Lines) Next() (*Node, error) {
	for l.sc.Scan() {
		l.n++
		if text := bytes.TrimSpace(l.sc.Bytes()); len(text) > 0 {
			return ParseJSON(l.name, l.n, text)
		}
	}
	err := l.sc.Err()
	switch {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, Problemf(Pos{File: l.name, Line: l.n + 1}, "the line is longer than %d MiB", l.most>>20)
	}
	return nil, err
}
