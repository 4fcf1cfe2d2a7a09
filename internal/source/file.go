package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"securebench/internal/redact"
)

// ErrNotRegular is returned by [Open] and the other functions for a directory, a
// named pipe, a device or another special file.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a file for reading. It must be a regular file or a link to one:
// opening a pipe would block until it has a writer, and opening a device can
// have effects. Errors name the file, escaped for a terminal.
func Open(name string) (*os.File, error) {
	return open(name, os.Stat, func() (*os.File, error) {
		return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	})
}

// OpenIn opens a file below root like [Open], with the flags of [os.OpenFile]. A
// link is not followed.
func OpenIn(root *os.Root, name string, flag int, perm fs.FileMode) (*os.File, error) {
	flag |= syscall.O_NONBLOCK | syscall.O_NOCTTY
	if dir, base := path.Split(name); dir != "" && base != "" && base != "." && base != ".." {
		if f, err := openBelow(root, dir, base, flag, perm); err == nil {
			return f, nil
		}
	} // which opens each folder on the way once; errors have the whole name
	return open(name, root.Lstat, func() (*os.File, error) { return root.OpenFile(name, flag, perm) })
}

// openBelow opens a file of a folder.
func openBelow(root *os.Root, dir, base string, flag int, perm fs.FileMode) (*os.File, error) {
	folder, err := root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return open(base, folder.Lstat, func() (*os.File, error) { return folder.OpenFile(base, flag, perm) })
}

// open checks the file before opening it, and the open file again: the name could
// have been replaced in between.
func open(name string, stat func(string) (fs.FileInfo, error), do func() (*os.File, error)) (*os.File, error) {
	if info, err := stat(name); err == nil {
		if err := regular(name, info); err != nil {
			return nil, err
		}
	}
	f, err := do()
	if err != nil {
		return nil, fileError(name, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// FS returns the content of root for reading. It opens directories, and files
// like [OpenIn].
func FS(root *os.Root) fs.FS { return tree{root} }

type tree struct{ root *os.Root }

// OpensFiles reports whether a file system is one of [FS], which opens no special file.
func OpensFiles(fsys fs.FS) bool { _, ok := fsys.(tree); return ok }

func (t tree) Open(name string) (fs.File, error) {
	f, err := OpenIn(t.root, name, os.O_RDONLY, 0)
	if err == nil {
		return f, nil
	}
	if info, bad := t.root.Lstat(name); bad == nil && info.IsDir() {
		return t.root.FS().Open(name)
	}
	return nil, err
}

func (t tree) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(t.root.FS(), name) }
func (t tree) Stat(name string) (fs.FileInfo, error)      { return t.root.Stat(name) }
func (t tree) Lstat(name string) (fs.FileInfo, error)     { return t.root.Lstat(name) }
func (t tree) ReadLink(name string) (string, error)       { return t.root.Readlink(name) }

// ReadFile reads a file of at most limit bytes, opened like [Open].
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	return readAll(f, name, limit)
}

// ReadFileIn reads a file of at most limit bytes, opened like [OpenIn].
func ReadFileIn(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := OpenIn(root, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return readAll(f, name, limit)
}

// readAll reads and closes f.
func readAll(f *os.File, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fileError(name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", redact.Escape(name), limit)
	}
	return data, nil
}

func regular(name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	err := fmt.Errorf("%s is %s, %w", redact.Escape(name), FileType(info.Mode()), ErrNotRegular)
	if info.Mode()&fs.ModeNamedPipe != 0 {
		err = fmt.Errorf("%w (write its output to a file first)", err)
	}
	return err
}

// FileType names the type of a file: "a directory", "a named pipe".
func FileType(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a regular file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// fileError names the file and the error, without the system call.
func fileError(name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if name == "" {
		name = `""`
	}
	return fmt.Errorf("%s: %w", redact.Escape(name), err)
}

// Words returns the message of err in plain English: file system errors without
// the name of the system call, and Go's sentinel errors without their jargon.
func Words(err error) string { return Reword(err.Error(), err) }

// Reword is [Words] for a part of the message of err.
func Reword(text string, err error) string {
	walk(err, func(e error) {
		if plain, ok := inWords(e); ok {
			text = strings.ReplaceAll(text, e.Error(), plain)
		}
	})
	return text
}

// inWords rewords one error of the standard library.
func inWords(err error) (string, bool) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked by the caller
	case *fs.PathError:
		return e.Path + ": " + e.Err.Error(), true
	case *os.LinkError:
		return e.Old + " to " + e.New + ": " + e.Err.Error(), true
	case *os.SyscallError:
		return e.Err.Error(), true
	}
	for _, s := range []struct {
		err   error
		words string
	}{
		{io.ErrUnexpectedEOF, "it ends too early"}, {context.DeadlineExceeded, "it took too long"},
		{context.Canceled, "interrupted"}, {os.ErrClosed, "closed already"},
	} {
		if err.Error() == s.err.Error() {
			return s.words, true
		}
	}
	return "", false
}

// walk visits err and all errors that it wraps, outer ones first.
func walk(err error, visit func(error)) {
	if err == nil {
		return
	}
	visit(err)
	switch e := err.(type) { //nolint:errorlint // this is the walk
	case interface{ Unwrap() error }:
		walk(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			walk(inner, visit)
		}
	}
}
