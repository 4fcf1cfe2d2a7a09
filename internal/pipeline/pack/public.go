package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Public opens the public files that a pack had when it was loaded, and nothing else. The
// zero value has none.
type Public struct {
	root    *os.Root
	regular func(name string) bool
}

// OpenPublic opens the folder of the public files. The caller closes it.
func (p *Pack) OpenPublic() (*Public, error) {
	return openPublic(func() (*os.Root, error) { return os.OpenRoot(p.PublicRoot()) }, func(name string) bool { return p.PublicFiles[name] != "" })
}

// openPublic opens a folder, which may be missing.
func openPublic(open func() (*os.Root, error), regular func(string) bool) (*Public, error) {
	root, err := open()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening the pack's public files: %w", withoutPath(err))
	}
	return &Public{root, regular}, nil
}

// Open opens a regular file by its path below the folder.
func (p *Public) Open(name string) (fs.File, error) {
	if p.root == nil || !p.regular(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	// Without O_NONBLOCK, opening a pipe that has replaced the file would block.
	f, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist})
	}
	return f, nil
}

// Close closes the folder.
func (p *Public) Close() error {
	if p == nil || p.root == nil {
		return nil
	}
	return p.root.Close()
}

// Public returns the public files while the pack is being loaded, nil at any other time.
func (r Row) Public() fs.FS {
	if r.trees == nil || r.trees.files == nil {
		return nil
	}
	return r.trees.files
}
