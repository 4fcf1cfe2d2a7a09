package subcommand

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/durable"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// PrintJSON prints one object on a line, in ASCII like a record.
func (s *Shell) PrintJSON(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err == nil {
		_, err = fmt.Fprintf(s.Stdout, "%s\n", redact.ASCII(b))
	}
	if err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	return nil
}

// Unwritable returns the error for a file of -o that cannot be written. The
// wrapped error names only a temporary file, which the operator does not know.
func Unwritable(name string, err error) error {
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return fault.As(fault.Refused, fmt.Errorf("%s cannot be written: %w", redact.Quote(name), err))
}

// WriteWhole creates or replaces a file atomically.
func WriteWhole(name string, write func(io.Writer) error) (err error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return Unwritable(name, fmt.Errorf("it is %s", source.FileType(info.Mode())))
	}
	dir, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return Unwritable(name, err)
	}
	defer dir.Close()
	f, err := durable.Create(dir, durable.UniqueName("."), 0o644)
	if err != nil {
		return Unwritable(name, err)
	}
	if err := write(f); err != nil {
		return errors.Join(Unwritable(name, err), f.Discard())
	}
	if err := f.Commit(filepath.Base(name)); err != nil {
		return Unwritable(name, err)
	}
	return nil
}
