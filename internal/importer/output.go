package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// output is a set of files in one folder that appear together: each is
// written under a temporary name and renamed at the end.
type output struct {
	dir   string
	root  *os.Root
	names []string
	files map[string]*part
}

// part is one file that is being written.
type part struct {
	file *os.File
	buf  *bufio.Writer
}

// partName is where a file lies until it is complete.
func partName(name string) string { return "." + name + ".part" }

// newOutput opens dir for the named files. Without force none of them may be
// there already.
func newOutput(dir string, force bool, names ...string) (*output, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: making the output folder: %w", ErrOutput, err)
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
		if err := o.vacant(name); err != nil && (!force || !errors.Is(err, ErrExists)) {
			return err
		}
	}
	for _, name := range o.names {
		f, err := o.root.OpenFile(partName(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("%w: creating a file of the output: %w", ErrOutput, err)
		}
		o.files[name] = &part{f, bufio.NewWriter(f)}
	}
	return nil
}

// vacant returns an error unless name is free.
func (o *output) vacant(name string) error {
	_, err := o.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%w: looking at the output: %w", ErrOutput, err)
	}
	return fmt.Errorf("%s: %w", filepath.Join(o.dir, name), ErrExists)
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

// commit makes every file durable, then puts each in its place.
func (o *output) commit() error {
	for _, name := range o.names {
		p := o.files[name]
		if err := errors.Join(p.buf.Flush(), p.file.Sync(), p.file.Close()); err != nil {
			return fmt.Errorf("%w: finishing %s: %w", ErrOutput, name, err)
		}
	}
	for _, name := range o.names {
		if err := o.root.Rename(partName(name), name); err != nil {
			return fmt.Errorf("%w: placing %s: %w", ErrOutput, name, err)
		}
		delete(o.files, name)
	}
	return nil
}

// discard removes what was not committed. It is a clean-up after an error
// that the caller returns; its own errors would only hide that one.
func (o *output) discard() {
	for name, p := range o.files {
		_ = p.file.Close()
		_ = o.root.Remove(partName(name))
	}
	_ = o.root.Close()
}
