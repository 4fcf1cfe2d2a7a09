package holder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
)

// Bounds of a removal.
const (
	// maxPaths bounds the paths of one request in bytes, and with it their number.
	maxPaths = 16 << 20
	// maxRemoved bounds the files and directories of one request: something
	// that still writes to the tree could keep a removal busy for ever.
	maxRemoved = 1 << 22
	// batch is how many names of a directory are in memory at a time.
	batch = 1024
)

// checkPath refuses what does not name something below the root of the tree.
func checkPath(path string) error {
	// A name in the tree can be any bytes, so fs.ValidPath asks too much.
	if path == "" || path == "." || strings.ContainsRune(path, 0) {
		return fmt.Errorf("%q is not a path inside the tree", path)
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("%q is not a path inside the tree", path)
		}
	}
	return nil
}

// remove removes what the paths name, each ended by a NUL byte.
func remove(root *os.Root, paths io.Reader) error {
	list, err := bounded.ReadAll(paths, maxPaths)
	if errors.Is(err, bounded.ErrTooLong) {
		err = sandbox.ErrTooLarge
	}
	if err != nil {
		return fmt.Errorf("reading the paths: %w", err)
	}
	r := &remover{left: maxRemoved}
	for rest := string(list); rest != ""; {
		path, after, ended := strings.Cut(rest, "\x00")
		if !ended {
			return errors.New("the last path is cut off")
		}
		if err := checkPath(path); err != nil {
			return err
		}
		if err := r.path(root, path); err != nil {
			return fmt.Errorf("removing %q: %w", path, err)
		}
		rest = after
	}
	return nil
}

// remover removes files and directories one name at a time, so that neither a
// link nor a deep tree leads it elsewhere.
type remover struct{ left int }

// path removes what is at a path, and then the directories above it that this
// left empty.
func (r *remover) path(root *os.Root, path string) (err error) {
	parts := strings.Split(path, "/")
	if len(parts) > MaxDepth {
		return nil // as for an archive, nothing is there
	}
	dirs := []*os.Root{root}
	var undo []func() error
	defer func() {
		for i := len(undo) - 1; i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
	}()
	for _, part := range parts[:len(parts)-1] {
		sub, done, e := openWritable(dirs[len(dirs)-1], part)
		if errors.Is(e, fs.ErrNotExist) {
			return nil
		}
		if e != nil {
			return e
		}
		undo = append(undo, done)
		dirs = append(dirs, sub)
	}
	removed, err := r.entry(dirs[len(dirs)-1], parts[len(parts)-1], len(parts))
	for i := len(dirs) - 2; removed && err == nil && i >= 0; i-- {
		err = dirs[i].Remove(parts[i])
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			return nil
		}
	}
	return err
}

// openWritable opens a directory in which something is to be removed. A
// directory without the permissions for that gets them until done.
func openWritable(dir *os.Root, name string) (sub *os.Root, done func() error, err error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	perm := info.Mode().Perm()
	narrow := info.IsDir() && perm&0o700 != 0o700
	if narrow {
		if err := chmod(dir, name, perm|0o700); err != nil {
			return nil, nil, err
		}
	}
	if sub, err = openDir(dir, name); err != nil {
		return nil, nil, err
	}
	return sub, func() error {
		var err error
		if narrow {
			err = chmod(sub, ".", perm)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // it was removed as well
		}
		return errors.Join(err, sub.Close())
	}, nil
}

// entry removes one name of a directory with all that is below it, and reports
// whether there was anything.
func (r *remover) entry(dir *os.Root, name string, depth int) (bool, error) {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if info.IsDir() {
		if err := r.empty(dir, name, depth); err != nil {
			return false, err
		}
	}
	if r.left--; r.left < 0 {
		return false, sandbox.ErrTooLarge
	}
	return true, dir.Remove(name)
}

// empty removes what is in a directory.
func (r *remover) empty(dir *os.Root, name string, depth int) (err error) {
	if depth > MaxDepth {
		return sandbox.ErrTooLarge
	}
	sub, done, err := openWritable(dir, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	for {
		names, err := someNames(sub)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, n := range names {
			if _, err := r.entry(sub, n, depth+1); err != nil {
				return err
			}
		}
	}
}

// someNames returns the first names of a directory. A directory that shrinks
// is opened anew for the next ones.
func someNames(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(batch)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}
