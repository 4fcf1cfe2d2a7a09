package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"securebench/internal/digest"
	"securebench/internal/source"
)

// MaxLine is the maximum length of a line in bytes, for writing and reading.
// Candidates, outputs and public values in a line have much lower bounds.
const MaxLine = 16 << 20

// Entry is a line read from a file, with its position in the chain.
type Entry struct {
	*Line
	Seq    int64
	Prev   string // the digest of the previous line
	MAC    string
	Digest string // of this line's bytes
	// Number is that of the line in its file, from 1, Offset where it begins there, and
	// Size its length, where a reader sets them.
	Number int
	Offset int64
	Size   int
	raw    []byte
	field  string // of the file
}

// Decode reads a record strictly: it must be, byte for byte, what this package
// would write. That excludes duplicate and unknown keys, alternative spellings
// of a value, and trailing data.
func Decode(raw []byte) (Entry, error) {
	var w capturedWire
	return w.decode(raw, recordField, &w.wire)
}

// decode reads a line of a file into a part of w.
func (w *capturedWire) decode(raw []byte, field string, part any) (Entry, error) {
	if err := jsonv2.Unmarshal(raw, part, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Entry{}, fmt.Errorf("not a record: %w", digest.JSONError(err))
	}
	l := w.line()
	l.Produced = w.Produced
	e, err := Entry{Seq: w.Seq, Prev: w.Prev, MAC: w.MAC, field: field}.With(l)
	if err != nil {
		return Entry{}, err
	}
	if !bytes.Equal(e.raw, raw) {
		return Entry{}, errors.New("not a record in canonical form")
	}
	return e, nil
}

// With returns the record that would have other fields in the place of e: with its
// number, its predecessor and its MAC.
func (e Entry) With(l *Line) (Entry, error) {
	w := capturedWire{l.wire(), l.Produced}
	w.Seq, w.Prev, w.MAC = e.Seq, e.Prev, e.MAC
	b, err := w.encode(e.field)
	if err != nil {
		return Entry{}, err
	}
	e.Line, e.Digest, e.raw = l, digest.Bytes(b), b
	return e, nil
}

// Authentic reports whether the line was written by whoever holds the salt.
func (e Entry) Authentic(salt digest.Salt) bool {
	before, after, _ := bytes.Cut(e.raw, []byte(`"mac": "`+e.MAC+`"`))
	return e.MAC == mac(salt, e.field, e.TaskID, slices.Concat(before, []byte(noMAC), after))
}

// ReadFile reads a regular file of at most limit bytes. An untrusted directory
// may contain an endless pipe, or files larger than memory.
func ReadFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	if !source.OpensFiles(fsys) {
		info, err := fs.Lstat(fsys, name)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", name)
		}
		if err != nil {
			return nil, err
		}
	}
	in, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	data := make([]byte, info.Size()+1) // of which the last byte shows whether it has grown
	n, err := io.ReadFull(in, data)
	switch {
	case err == nil:
		return nil, fmt.Errorf("%s grows while it is read", name)
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, err
	}
	return data[:n], nil
}

// CandidatePath returns the path of a candidate in an output directory.
func CandidatePath(sum string) (string, error) {
	hex, err := digest.Hex(sum)
	return path.Join(CandidatesName, hex), err
}

// The maximum sizes of files that are read into memory.
const (
	maxManifest = 16 << 20
	maxSmall    = 1 << 20 // salt, digests
	MaxConfig   = 16 << 20
	maxRaw      = 1 << 30
)

// RawLine is one line of a file of records, without its newline.
type RawLine struct {
	Number int // from 1
	Offset int64
	Bytes  []byte
	// Torn is set if the newline is missing: the write was interrupted.
	Torn bool
}

// ErrLineTooLong is returned for a line longer than [MaxLine].
var ErrLineTooLong = fmt.Errorf("a line is longer than %d bytes", MaxLine)

// Lines reads a file of records line by line. The caller may keep the
// bytes of a line.
func Lines(r io.Reader) iter.Seq2[RawLine, error] {
	return func(yield func(RawLine, error) bool) {
		br := bufio.NewReaderSize(r, 64<<10) // longer lines are put together from parts
		at := int64(0)
		for n := 1; ; n++ {
			line, err := readLine(br)
			torn := errors.Is(err, io.EOF)
			if err != nil && !torn {
				yield(RawLine{Number: n}, fmt.Errorf("reading line %d: %w", n, err))
				return
			}
			if torn && len(line) == 0 {
				return
			}
			if !yield(RawLine{Number: n, Offset: at, Bytes: bytes.TrimSuffix(line, []byte("\n")), Torn: torn}, nil) || torn {
				return
			}
			at += int64(len(line))
		}
	}
}

// readLine returns the next line with its newline, or the rest of the file and
// [io.EOF].
func readLine(br *bufio.Reader) (line []byte, err error) {
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > MaxLine {
			return nil, ErrLineTooLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
