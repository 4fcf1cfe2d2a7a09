package pack

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"securebench/internal/digest"
	"securebench/internal/source"
)

const (
	maxLine     = 16 << 20 // bytes of a row
	maxManifest = 1 << 20  // bytes of a manifest
)

// openRegular opens a regular file that is not a link. The caller closes it.
func openRegular(name string) (*os.File, error) {
	before, err := os.Lstat(name)
	if err != nil {
		return nil, source.Problemf(source.Pos{File: name}, "reading the file: %v", withoutPath(err))
	}
	if !before.Mode().IsRegular() {
		return nil, &source.Problem{Pos: source.Pos{File: name},
			Message: fmt.Sprintf("the file is %s", describe(before.Mode())), Fix: "put a regular file there"}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, source.Problemf(source.Pos{File: name}, "reading the file: %v", withoutPath(err))
	}
	// The file could have been replaced in between.
	if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
		f.Close()
		return nil, source.Problemf(source.Pos{File: name}, "the file was replaced while it was opened")
	}
	return f, nil
}

// readRegular reads a whole regular file of at most limit bytes.
func readRegular(name string, limit int64) ([]byte, error) {
	f, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, withoutPath(err))
	}
	if int64(len(b)) > limit {
		return nil, source.Problemf(source.Pos{File: name}, "the file is larger than %d bytes", limit)
	}
	return b, nil
}

// describe names the type of a file that is not regular.
func describe(m os.FileMode) string {
	switch {
	case m&os.ModeSymlink != 0:
		return "a symbolic link"
	case m.IsDir():
		return "a directory"
	case m.IsRegular():
		return "a regular file"
	}
	return "a special file"
}

// lineReader streams the non-blank lines of a file and hashes every byte that
// it reads.
type lineReader struct {
	name string
	f    *os.File
	r    *bufio.Reader
	sum  hash.Hash
	line int
	// start is the offset of the line that next returned last; end is the
	// offset of the following line.
	start, end int64
	buf        []byte
}

func openLines(name string) (*lineReader, error) {
	f, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	return &lineReader{name: name, f: f, sum: sum, r: bufio.NewReaderSize(io.TeeReader(f, sum), 64<<10)}, nil
}

func (l *lineReader) close() { l.f.Close() }

// pos is the line that next returned last.
func (l *lineReader) pos() source.Pos { return source.Pos{File: l.name, Line: l.line} }

// digest is the digest of all bytes; it is valid once next has reported the
// end.
func (l *lineReader) digest() string { return digest.Format(l.sum.Sum(nil)) }

// next returns the next non-blank line, without its line ending. The bytes are
// valid until the next call. more is false at the end of the file.
func (l *lineReader) next() (line []byte, more bool, err error) {
	for {
		switch err := l.read(); {
		case errors.Is(err, io.EOF):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		}
		if line := bytes.TrimSuffix(l.buf, []byte("\r")); len(bytes.TrimSpace(line)) > 0 {
			return line, true, nil
		}
	}
}

// read fills buf with the next line, or returns io.EOF at the end of the file.
func (l *lineReader) read() error {
	l.buf, l.start = l.buf[:0], l.end
	for {
		part, err := l.r.ReadSlice('\n')
		l.end += int64(len(part))
		if len(l.buf) == 0 && len(part) > 0 {
			l.line++
		}
		l.buf = append(l.buf, part...)
		if len(bytes.TrimSuffix(l.buf, []byte("\n"))) > maxLine {
			return source.Problemf(l.pos(), "the row is longer than %d bytes", maxLine)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.buf) > 0, err == nil:
			l.buf = bytes.TrimSuffix(l.buf, []byte("\n"))
			return nil
		case errors.Is(err, io.EOF):
			return io.EOF
		}
		return fmt.Errorf("reading %s: %w", l.name, withoutPath(err))
	}
}
