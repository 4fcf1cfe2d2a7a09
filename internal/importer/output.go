package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"securebench/internal/durable"
)

// output is a set of files in one folder. They are written under temporary
// names and get their own once all of them are complete.
type output struct {
	dir   string
	root  *os.Root
	names []string
	files map[string]*part
}

// part is one file that is being written.
type part struct {
	file *durable.File
	buf  *bufio.Writer
}

// newOutput opens dir for the named files. Without force none of them may
// exist.
func newOutput(dir string, force bool, names ...string) (*output, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: creating the output folder: %w", ErrOutput, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: opening the output folder: %w", ErrOutput, err)
	}
	out := &output{dir: dir, root: root, names: names, files: make(map[string]*part)}
	if err := out.open(force); err != nil {
		out.discard()
		return nil, err
	}
	return out, nil
}

func (o *output) open(force bool) error {
	for _, name := range o.names {
		_, err := o.root.Lstat(name)
		switch {
		case err == nil && !force:
			return fmt.Errorf("%s: %w", filepath.Join(o.dir, name), ErrExists)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: reading the output folder: %w", ErrOutput, err)
		}
	}
	for _, name := range o.names {
		f, err := durable.Create(o.root, durable.TempName(name), 0o644)
		if err != nil {
			return fmt.Errorf("%w: creating %s: %w", ErrOutput, name, err)
		}
		o.files[name] = &part{f, bufio.NewWriter(f)}
	}
	return nil
}

// line appends v as one JSON line.
func (o *output) line(name string, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return o.write(name, b)
}

// write appends data to a file of the set.
func (o *output) write(name string, data []byte) error {
	if _, err := o.files[name].buf.Write(data); err != nil {
		return fmt.Errorf("%w: writing %s: %w", ErrOutput, name, err)
	}
	return nil
}

// commit writes every file to disk before it renames the first, so that a full
// disk leaves the former files as they were.
func (o *output) commit() error {
	for _, name := range o.names {
		p := o.files[name]
		if err := errors.Join(p.buf.Flush(), p.file.Sync()); err != nil {
			return fmt.Errorf("%w: writing %s: %w", ErrOutput, name, err)
		}
	}
	for _, name := range o.names {
		if err := o.files[name].file.Commit(name); err != nil {
			return fmt.Errorf("%w: renaming %s: %w", ErrOutput, name, err)
		}
	}
	return nil
}

// discard removes what was not committed. Its own errors are dropped: the
// caller returns the error that led here.
func (o *output) discard() {
	for _, p := range o.files {
		_ = p.file.Discard()
	}
	_ = o.root.Close()
}
