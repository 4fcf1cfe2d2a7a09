// Package reader reads delivered files, of which nothing is to be believed, into the model
// of package artifact. It belongs in a sandbox: it keeps what it reads within bounds and is
// strict where two readers could see two different things, but the parsers below it are as
// good as anyone's.
package reader

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"securebench/internal/artifact"
	"securebench/internal/bounded"
)

// MaxBytes is the length of the longest file that is read.
const MaxBytes = 64 << 20

// Bounds of what a file may say.
const (
	maxCells = 2_000_000 // of a table, of all sheets of a workbook
	maxDepth = 1_000     // of JSON and XML
)

// Unreadable is the error of a file that is at fault itself: it is not of its type, or it
// is beyond the bounds.
type Unreadable struct {
	Reason string // what the file does, in words that follow its name
}

func (u *Unreadable) Error() string { return u.Reason }

func refuse(format string, args ...any) error {
	return &Unreadable{Reason: fmt.Sprintf(format, args...)}
}

// Read reads a file of a type. The error is an [*Unreadable] if the file is at fault.
func Read(data []byte, t artifact.Type) (*artifact.File, error) {
	read, known := readers()[t]
	if !known {
		return nil, fmt.Errorf("files of the type %q cannot be read", t)
	}
	if len(data) > MaxBytes {
		return nil, refuse("has %d bytes, which is more than %d", len(data), MaxBytes)
	}
	sum := sha256.Sum256(data)
	f := &artifact.File{Type: t, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	if err := guarded(read, data, f); err != nil {
		return nil, err
	}
	return f, nil
}

// A part fills in what files of one type say.
type part func(data []byte, f *artifact.File) error

func readers() map[artifact.Type]part {
	return map[artifact.Type]part{
		artifact.CSV:  readCSV,
		artifact.JSON: readJSON,
		artifact.Text: readText,
		artifact.XLSX: readXLSX,
		artifact.DOCX: readDOCX,
		artifact.PPTX: readPPTX,
		artifact.PDF:  readPDF,
		artifact.PNG:  readPNG,
		artifact.JPEG: readJPEG,
		artifact.NPY:  readArray,
		artifact.ZIP:  readZip,
		artifact.Any:  func([]byte, *artifact.File) error { return nil },
	}
}

// guarded takes a parser that panics for one that refuses the file: that is what made it.
func guarded(read part, data []byte, f *artifact.File) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = refuse("stops its reader: %s", bounded.Text(fmt.Sprint(p), 200))
		}
	}()
	return read(data, f)
}
