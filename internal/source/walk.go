package source

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// WalkDir is [fs.WalkDir]. In a tree of [FS] it opens each folder by the one above it, and
// not by all of its name, which may be one of a hundred thousand. It follows no link.
func WalkDir(fsys fs.FS, top string, do fs.WalkDirFunc) error {
	t, ok := fsys.(tree)
	if !ok {
		return fs.WalkDir(fsys, top, do)
	}
	info, err := t.root.Lstat(top)
	if err != nil {
		err = do(top, nil, err)
	} else {
		err = visit(fs.FileInfoToDirEntry(info), top, func() (*os.File, error) { return t.root.Open(top) }, do)
	}
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

// visit visits what has a name, and what is in it if it is a folder, which open opens.
func visit(e fs.DirEntry, name string, open func() (*os.File, error), do fs.WalkDirFunc) error {
	if err := do(name, e, nil); err != nil || !e.IsDir() {
		if errors.Is(err, fs.SkipDir) && e.IsDir() {
			return nil
		}
		return err
	}
	dir, err := open()
	var entries []fs.DirEntry
	if err == nil {
		defer dir.Close()
		entries, err = dir.ReadDir(-1)
	}
	if err != nil {
		if err = do(name, e, err); err != nil {
			if errors.Is(err, fs.SkipDir) {
				return nil
			}
			return err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, in := range entries {
		below := path.Join(name, in.Name())
		err := visit(in, below, func() (*os.File, error) { return folderIn(dir, below) }, do)
		if errors.Is(err, fs.SkipDir) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// folderIn opens a folder in an open one, by the last part of its name, which must not be
// longer than names of files may be: all folders on the way are open. The file is named by
// its descriptor, by which the types of what is in it are looked up where the file system
// does not say them.
func folderIn(dir *os.File, name string) (*os.File, error) {
	if len(name) >= unix.PathMax {
		return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ENAMETOOLONG}
	}
	for {
		fd, err := unix.Openat(int(dir.Fd()), path.Base(name), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}
