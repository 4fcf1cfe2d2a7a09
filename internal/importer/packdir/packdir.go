// Package packdir writes the files of an imported pack: all of them, or none.
package packdir

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"securebench/internal/durable"
)

// A Set is files in one folder. They are written under temporary
// names and get their own once all of them are complete.
type Set struct {
	dir   string
	ours  bool // the folder was made for it
	force bool
	root  *os.Root
	names []string
	files map[string]*part
	made  []string // folders that were made for them
	again bool     // the folder holds a former import, which is replaced
}

// Mark begins the manifest of every imported pack.
const Mark = "# Imported from the "

// ErrOutput means that the output cannot be written.
var ErrOutput = errors.New("cannot write the output")

// ErrExists means that the output exists and may not be replaced.
var ErrExists = errors.New("it already exists")

// part is one file that is being written, or is whole, without a buffer.
type part struct {
	file *durable.File
	buf  *bufio.Writer
}

// shut completes the file.
func (p *part) shut() error {
	if p.buf == nil {
		return nil
	}
	err := errors.Join(p.buf.Flush(), p.file.Shut())
	p.buf = nil
	return err
}

// New opens dir for the named files. Without force none of them may
// exist.
func New(dir string, force bool, names ...string) (*Set, error) {
	_, missing := os.Lstat(dir)
	root, err := durable.OpenFolder(dir, 0o755)
	if err != nil {
		return nil, fmt.Errorf("%w: opening the output folder: %w", ErrOutput, err)
	}
	out := &Set{dir: dir, ours: errors.Is(missing, fs.ErrNotExist), force: force, root: root, files: make(map[string]*part)}
	out.again = force && out.imported()
	for _, name := range names { // before the first is opened
		if err = out.free(name); err != nil {
			break
		}
	}
	for _, name := range names {
		if err == nil {
			_, err = out.Add(name)
		}
	}
	if err != nil {
		out.Discard()
		return nil, err
	}
	return out, nil
}

// imported reports whether the folder holds an imported pack.
func (o *Set) imported() bool {
	f, err := o.root.Open("manifest.yaml")
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(Mark))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == Mark
}

// free returns an error if a file exists and may not be replaced.
func (o *Set) free(name string) error {
	_, err := o.root.Lstat(name)
	switch {
	case err == nil && !o.force:
		return fmt.Errorf("%s: %w", filepath.Join(o.dir, name), ErrExists)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: reading the output folder: %w", ErrOutput, err)
	}
	return nil
}

// Add opens one more file of the set, with the folders above it.
func (o *Set) Add(name string) (io.Writer, error) { return o.open(name, 0o644) }

func (o *Set) open(name string, mode fs.FileMode) (io.Writer, error) {
	if err := o.free(name); err != nil {
		return nil, err
	}
	if err := o.folder(path.Dir(name)); err != nil {
		return nil, fmt.Errorf("%w: creating %s: %w", ErrOutput, path.Dir(name), err)
	}
	f, err := durable.Create(o.root, durable.TempName(name), mode)
	if err != nil {
		return nil, fmt.Errorf("%w: creating %s: %w", ErrOutput, name, err)
	}
	p := &part{f, bufio.NewWriter(f)}
	o.names, o.files[name] = append(o.names, name), p
	return p.buf, nil
}

// folder makes a folder and those above it.
func (o *Set) folder(dir string) error {
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

// Line appends v as one JSON line.
func (o *Set) Line(name string, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encoding a row: %w", err)
	}
	return o.Write(name, append(b, '\n'))
}

// Write appends data to a file of the set.
func (o *Set) Write(name string, data []byte) error {
	if _, err := o.files[name].buf.Write(data); err != nil {
		return fmt.Errorf("%w: writing %s: %w", ErrOutput, name, err)
	}
	return nil
}

// Put adds a whole file to the set.
func (o *Set) Put(name, text string) error { return o.PutFile(name, []byte(text), false) }

// PutFile adds a whole file to the set, which may be a program. It is closed at once: a pack
// can have more files than a process may have open.
func (o *Set) PutFile(name string, data []byte, program bool) error {
	return o.CopyFile(name, bytes.NewReader(data), program)
}

// CopyFile is [Set.PutFile] for what a reader has.
func (o *Set) CopyFile(name string, from io.Reader, program bool) error {
	mode := fs.FileMode(0o644)
	if program {
		mode = 0o755
	}
	w, err := o.open(name, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, from); err != nil {
		return fmt.Errorf("%w: writing %s: %w", ErrOutput, name, err)
	}
	if err := o.files[name].shut(); err != nil {
		return fmt.Errorf("%w: writing %s: %w", ErrOutput, name, err)
	}
	return nil
}

// PutFrom adds a whole file to the set, read from r, of at most limit bytes.
func (o *Set) PutFrom(name string, r io.Reader, limit int64) error {
	content := &io.LimitedReader{R: r, N: limit + 1}
	if err := o.CopyFile(name, content, false); err != nil {
		return err
	}
	if content.N == 0 {
		return fmt.Errorf("%w: writing %s: it has more than %d bytes", ErrOutput, name, limit)
	}
	return nil
}

// Commit writes every file to disk before it renames the first, so that a full
// disk leaves the former files as they were.
func (o *Set) Commit() error {
	for _, name := range o.names {
		p := o.files[name]
		if err := p.shut(); err != nil {
			return fmt.Errorf("%w: writing %s: %w", ErrOutput, name, err)
		}
	}
	for _, name := range o.names {
		if err := o.files[name].file.Commit(name); err != nil {
			return fmt.Errorf("%w: renaming %s: %w", ErrOutput, name, err)
		}
	}
	o.made = nil
	if err := o.removeFormer(); err != nil {
		return fmt.Errorf("%w: removing what a former import left: %w", ErrOutput, err)
	}
	return nil
}

// removeFormer removes the files of a former import that this one does not have,
// from the folders that this one writes to: tests and parts of images would count
// as its own.
func (o *Set) removeFormer() error {
	if !o.again {
		return nil
	}
	tops := map[string]bool{}
	for _, name := range o.names {
		if top, _, below := strings.Cut(name, "/"); below {
			tops[top] = true
		}
	}
	var folders []string
	for top := range tops {
		err := fs.WalkDir(o.root.FS(), top, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir():
				folders = append(folders, name)
				return nil
			case o.files[name] != nil:
				return nil
			}
			return o.root.Remove(name)
		})
		if err != nil {
			return err
		}
	}
	for _, dir := range slices.Backward(folders) {
		if err := o.root.Remove(dir); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return nil
}

// Discard removes what was not committed. Its own errors are dropped: the
// caller returns the error that led here.
func (o *Set) Discard() {
	for _, p := range o.files {
		_ = p.file.Discard()
	}
	for _, dir := range slices.Backward(o.made) {
		_ = o.root.Remove(dir)
	}
	_ = o.root.Close()
	if o.ours {
		_ = os.Remove(o.dir) // unless something else is in it
	}
}
