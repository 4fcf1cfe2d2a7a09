// Package table reads tables row after row: CSV, TSV, JSON, JSON lines and Parquet.
//
// Every reader is strict and a stream: whatever a file's length, a few rows of it are in
// memory. A row is an object whose fields are the columns, each value with its place, so
// that whoever uses a row can say where it is wrong. It keeps the formats, and the module
// that reads Parquet, apart from what becomes of rows.
package table

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"securebench/internal/digest"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// The formats of [Options.As].
const (
	CSV     = "csv"
	TSV     = "tsv"
	JSON    = "json"
	Lines   = "jsonl"
	Parquet = "parquet"
)

// Formats lists the formats.
func Formats() []string { return []string{CSV, TSV, JSON, Lines, Parquet} }

// Options say how files are read. The zero value goes by their names.
type Options struct {
	As        string // the format; "" goes by the name
	Delimiter rune   // between the columns of CSV; 0 is a comma
	NoQuotes  bool   // quotes of CSV and TSV are characters like any other
	Split     string // of a JSON object of lists, the one that is the table
}

// Column is a column of a table.
type Column struct {
	Name string
	// Type says in words what its values are, "" if only they say it.
	Type string
	// Classes are the names of classes that its values count from 0, nil without any.
	Classes []string
}

// rows is what a format has.
type rows interface {
	// next returns the next row, an object, or io.EOF.
	next() (*source.Node, error)
	close() error
}

// File is an open table.
type File struct {
	Name string // in messages
	// Digest is that of the whole file, "sha256:…".
	Digest string
	Size   int64
	// Columns are those of the header or the schema. A format without either has none.
	Columns []Column

	rows   rows
	opened []io.Closer
}

// Format returns the format that a file's name says, "" for none, and the compression
// around it.
func Format(name string) (format, packed string) {
	base := strings.ToLower(path.Base(filepath.ToSlash(name)))
	for _, ext := range []string{".gz", ".zst"} {
		if inner, ok := strings.CutSuffix(base, ext); ok {
			base, packed = inner, ext
		}
	}
	switch path.Ext(base) {
	case ".csv":
		return CSV, packed
	case ".tsv", ".tab":
		return TSV, packed
	case ".json":
		return JSON, packed
	case ".jsonl", ".ndjson", ".jsonlines":
		return Lines, packed
	case ".parquet", ".pq":
		return Parquet, packed
	}
	return "", packed
}

// Open opens the table at a path, which messages call by another name. Its errors have the
// place.
func Open(path, name string, o Options) (*File, error) {
	format, packed := Format(name)
	if o.As != "" {
		format = o.As
	}
	if !slices.Contains(Formats(), format) {
		return nil, &source.Problem{Pos: source.Pos{File: name}, Message: "the name does not say what the table is written in",
			Fix: "give --read-as " + strings.Join(Formats(), ", ")}
	}
	file, err := source.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the table: %w", err)
	}
	f := &File{Name: name, opened: []io.Closer{file}}
	if err := f.open(file, format, packed, o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *File) open(file *os.File, format, packed string, o Options) error {
	if err := f.sum(file); err != nil {
		return err
	}
	if f.Size == 0 {
		return &source.Problem{Pos: source.Pos{File: f.Name}, Message: "the file is empty", Fix: "was it written, or fetched, to its end?"}
	}
	if format == Parquet {
		if packed != "" {
			return &source.Problem{Pos: source.Pos{File: f.Name}, Message: "a Parquet file inside a compressed one cannot be read", Fix: "unpack it: Parquet compresses by itself"}
		}
		return f.openParquet(file)
	}
	in, err := f.unpacked(file, packed)
	if err != nil {
		return err
	}
	text := bufio.NewReaderSize(in, 1<<16)
	head, err := text.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return f.unreadable(err)
	}
	if p := source.CheckHead(f.Name, head); p != nil {
		return p
	}
	switch format {
	case CSV, TSV:
		return f.openDelimited(text, format, o)
	case JSON:
		return f.openJSON(text, o.Split)
	}
	f.rows = newLines(text, f.Name)
	return nil
}

// sum reads the file once for its digest.
func (f *File) sum(file *os.File) error {
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	f.Size, f.Digest = n, digest.Format(hash.Sum(nil))
	return f.unreadable(err)
}

// unpacked returns the content of a file that may be compressed as its name says.
func (f *File) unpacked(file io.Reader, packed string) (io.Reader, error) {
	pos := source.Pos{File: f.Name}
	switch packed {
	case ".gz":
		in, err := gzip.NewReader(file)
		if err != nil {
			return nil, &source.Problem{Pos: pos, Message: "the file is not compressed with gzip, as its name says", Fix: "rename it, or compress it"}
		}
		f.opened = append(f.opened, in)
		return in, nil
	case ".zst":
		in, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, &source.Problem{Pos: pos, Message: "the file is not compressed with zstd, as its name says", Fix: "rename it, or compress it"}
		}
		c := in.IOReadCloser()
		f.opened = append(f.opened, c)
		return c, nil
	}
	return file, nil
}

// maxWindow bounds what a file that is compressed with zstd makes its reader keep.
const maxWindow = 128 << 20

// unreadable names the file in an error of reading it.
func (f *File) unreadable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.Is(err, zstd.ErrCRCMismatch), errors.Is(err, zstd.ErrMagicMismatch), errors.Is(err, io.ErrUnexpectedEOF):
		return &source.Problem{Pos: source.Pos{File: f.Name}, Message: "the compressed file is damaged or cut off", Fix: "fetch or write it again"}
	}
	return fmt.Errorf("reading %s: %s", redact.Escape(f.Name), source.Words(err))
}

// Next returns the next row, an object, or io.EOF.
func (f *File) Next() (*source.Node, error) {
	row, err := f.rows.next()
	var p *source.Problem
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &p) {
		return row, err
	}
	return nil, f.unreadable(err)
}

// Close ends the reading.
func (f *File) Close() error {
	var errs []error
	if f.rows != nil {
		errs = append(errs, f.rows.close())
	}
	for _, c := range slices.Backward(f.opened) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// maxLine bounds a row of JSON or CSV. A row with a picture in it is the longest there is.
const maxLine = 64 << 20

// lines reads rows of JSON lines.
type lines struct{ *source.Lines }

func newLines(r io.Reader, name string) lines {
	return lines{source.NewLines(r, name, maxLine)}
}

func (lines) close() error { return nil }

// next returns the next row.
func (l lines) next() (*source.Node, error) {
	node, err := l.Next()
	if err != nil {
		return nil, err
	}
	return asRow(node)
}

// asRow refuses what is no object.
func asRow(node *source.Node) (*source.Node, error) {
	if node.Kind != source.Map {
		return nil, &source.Problem{Pos: node.Pos, Message: fmt.Sprintf("a row must be an object, not %s", node.Kind), Fix: "write one object for each row, with the columns as its members"}
	}
	return node, nil
}
