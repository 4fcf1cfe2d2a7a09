package pack

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"securebench/internal/source"
)

// Ref refers to a row: its place in the file and the digest of its bytes.
type Ref struct {
	Index, Line int
	Offset      int64
	Length      int
	Sum         [sha256.Size]byte
	Files       bool // it names files with texts
}

// Ref returns a reference to a row that [Load] has read.
func (r Row) Ref() Ref {
	return Ref{r.Index, r.Line, r.Offset, len(r.Raw), sha256.Sum256(r.Raw), r.files}
}

// Reader reads rows by reference. It is safe for concurrent use.
type Reader struct {
	pack  *Pack
	file  *os.File // nil for a folder of tasks
	texts *textReader
}

// Open opens the rows for reading. The caller closes the reader.
func (p *Pack) Open() (*Reader, error) {
	texts, err := p.openTexts()
	if err != nil || p.names != nil {
		return &Reader{pack: p, texts: texts}, err
	}
	f, err := openRegular(p.Tasks)
	if err != nil {
		texts.close()
		return nil, err
	}
	return &Reader{p, f, texts}, nil
}

// Close releases the files.
func (r *Reader) Close() error {
	r.texts.close()
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Whole returns the bytes of a row, with the texts of the files that it names. The error is a
// [*ChangedError] if they are not those that were loaded.
func (r *Reader) Whole(ref Ref) ([]byte, error) {
	if !ref.Files && r.file != nil {
		return r.raw(ref)
	}
	row, err := r.Row(ref)
	return row.Whole, err
}

// raw returns the bytes of a row as they are in the file.
func (r *Reader) raw(ref Ref) ([]byte, error) {
	at := source.Pos{File: r.pack.Tasks, Line: ref.Line}
	// The byte after the row must be the end of its line.
	raw := make([]byte, ref.Length+1)
	n, err := r.file.ReadAt(raw, ref.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading %s: %w", r.pack.Tasks, withoutPath(err))
	}
	if n < ref.Length {
		return nil, &ChangedError{at, fmt.Sprintf("row %d is missing", ref.Index+1)}
	}
	ends := n == ref.Length || bytes.ContainsAny(raw[ref.Length:], "\r\n")
	raw = raw[:ref.Length]
	if !ends || sha256.Sum256(raw) != ref.Sum {
		return nil, &ChangedError{at, fmt.Sprintf("row %d changed", ref.Index+1)}
	}
	return raw, nil
}

// Row returns a row that was loaded.
func (r *Reader) Row(ref Ref) (Row, error) {
	if r.file == nil {
		return r.task(ref)
	}
	raw, err := r.raw(ref)
	if err != nil {
		return Row{}, err
	}
	row, errs, _, err := parseRow(r.texts, source.Pos{File: r.pack.Tasks, Line: ref.Line}, ref.Index, raw)
	row.Offset = ref.Offset
	return row, errors.Join(err, errs.Err())
}

// task returns a task of a folder.
func (r *Reader) task(ref Ref) (Row, error) {
	got, err := readTask(r.texts, r.pack.Location, r.pack.names[ref.Index], ref.Index)
	if err == nil && sha256.Sum256(got.Raw) != ref.Sum {
		err = &ChangedError{got.Pos, "the task changed"}
	}
	return got.Row, errors.Join(err, got.errs.Err())
}
