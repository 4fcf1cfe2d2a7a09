package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"securebench/internal/durable"
)

// output is a set of files in one folder. They are written under temporary
// names and get their own once all of them are complete.
type output struct {
	dir   string
	force bool
	root  *os.Root
	names []string
	files map[string]*part
	made  []string // folders that were made for them
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
	out := &output{dir: dir, force: force, root: root, files: make(map[string]*part)}
	for _, name := range names { // before the first is opened
		if err = out.free(name); err != nil {
			break
		}
	}
	for _, name := range names {
		if err == nil {
			_, err = out.add(name)
		}
	}
	if err != nil {
		out.discard()
		return nil, err
	}
	return out, nil
}

// free returns an error if a file exists and may not be replaced.
func (o *output) free(name string) error {
	_, err := o.root.Lstat(name)
	switch {
	case err == nil && !o.force:
		return fmt.Errorf("%s: %w", filepath.Join(o.dir, name), ErrExists)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: reading the output folder: %w", ErrOutput, err)
	}
	return nil
}

// add opens one more file of the set, with the folders above it.
func (o *output) add(name string) (io.Writer, error) {
	if err := o.free(name); err != nil {
		return nil, err
	}
	if err := o.folder(path.Dir(name)); err != nil {
		return nil, fmt.Errorf("%w: creating %s: %w", ErrOutput, path.Dir(name), err)
	}
	f, err := durable.Create(o.root, durable.TempName(name), 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w: creating %s: %w", ErrOutput, name, err)
	}
	p := &part{f, bufio.NewWriter(f)}
	o.names, o.files[name] = append(o.names, name), p
	return p.buf, nil
}

// folder makes a folder and those above it.
func (o *output) folder(dir string) error {
	if dir == "." {
		return nil
	}
	if err := o.folder(path.Dir(dir)); err != nil {
		return err
	}
	err := o.root.Mkdir(dir, 0o755)
	if err == nil {
		o.made = append(o.made, dir)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
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

// put adds a whole file to the set.
func (o *output) put(name, text string) error {
	if _, err := o.add(name); err != nil {
		return err
	}
	return o.write(name, []byte(text))
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
	o.made = nil
	return nil
}

// discard removes what was not committed. Its own errors are dropped: the
// caller returns the error that led here.
func (o *output) discard() {
	for _, p := range o.files {
		_ = p.file.Discard()
	}
	for _, dir := range slices.Backward(o.made) {
		_ = o.root.Remove(dir)
	}
	_ = o.root.Close()
}
