// Package durable writes files that are either complete or absent after a
// crash, and locks them.
package durable

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/attended"
	"securebench/internal/source"
)

// TempPrefix is the prefix of the names of unfinished files. A killed writer
// leaves such files behind.
const TempPrefix = ".new-"

// TempName returns the temporary name of a file that has a single writer.
func TempName(name string) string { return path.Join(path.Dir(name), TempPrefix+path.Base(name)) }

// OpenFolder opens a folder, and makes it if there is none.
func OpenFolder(dir string, perm fs.FileMode) (*os.Root, error) {
	if err := os.MkdirAll(dir, perm); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// UniqueName returns a temporary name in dir that no other writer uses.
func UniqueName(dir string) string { return path.Join(dir, TempPrefix+rand.Text()) }

// File is a file that is being written under a temporary name. Either
// [File.Commit], [File.Link] or [File.Discard] ends it.
type File struct {
	*os.File
	root *os.Root
	temp string
	shut bool
	done bool
}

// Create opens a temporary file below root. A regular file of that name, left
// by a killed writer, is overwritten.
func Create(root *os.Root, temp string, mode fs.FileMode) (*File, error) {
	f, err := source.OpenIn(root, temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return nil, err
	}
	return &File{File: f, root: root, temp: temp}, nil
}

// Commit flushes the file and renames it to name, which it replaces.
func (f *File) Commit(name string) error { return f.finish(name, f.root.Rename) }

// Link flushes the file and gives it its name; the error is [fs.ErrExist] if
// the name is taken.
func (f *File) Link(name string) error {
	return f.finish(name, func(temp, name string) error {
		if err := f.root.Link(temp, name); err != nil {
			return err
		}
		return f.root.Remove(temp)
	})
}

// Shut flushes and closes a file that is whole before its end is decided: one of very many
// that get their names together.
func (f *File) Shut() error {
	if f.shut {
		return nil
	}
	f.shut = true
	return errors.Join(f.Sync(), f.Close())
}

func (f *File) finish(name string, place func(temp, name string) error) error {
	f.done = true
	err := f.Shut()
	if err == nil {
		err = place(f.temp, name)
	}
	if err != nil {
		return errors.Join(err, f.remove())
	}
	return SyncDir(f.root, path.Dir(name))
}

// Discard removes the file. After a commit it does nothing, so it can be
// deferred.
func (f *File) Discard() error {
	if f.done {
		return nil
	}
	f.done = true
	if f.shut {
		return f.remove()
	}
	return errors.Join(f.Close(), f.remove())
}

func (f *File) remove() error {
	if err := f.root.Remove(f.temp); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// LinkOpen gives an open file another name, below root, on the same file system. The
// error is [fs.ErrExist] if the name is taken.
func LinkOpen(f *os.File, root *os.Root, name string) error {
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	fd := int(f.Fd()) // its name could be another file's by now
	err = unix.Linkat(fd, "", int(dir.Fd()), path.Base(name), unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.ENOENT) { // also where only root may do so
		err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), int(dir.Fd()), path.Base(name), unix.AT_SYMLINK_FOLLOW)
	}
	return errors.Join(os.NewSyscallError("linkat", err), dir.Close())
}

// WriteFile creates or replaces a file that has a single writer.
func WriteFile(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	f, err := write(root, name, data, mode)
	if err != nil {
		return err
	}
	return f.Commit(name)
}

// write writes the temporary file of a file that has a single writer.
func write(root *os.Root, name string, data []byte, mode fs.FileMode) (*File, error) {
	f, err := Create(root, TempName(name), mode)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(err, f.Discard())
	}
	return f, nil
}

// SyncDir makes new names in a directory durable.
func SyncDir(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// ErrLocked is returned by [TryLock] and [LockIn] when another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// TryLock locks an open file or directory for this process. The kernel
// releases the lock when the file is closed or the process dies.
func TryLock(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// The patience of [TryLockSoon]: in all, and between two tries.
const (
	lookTime  = 250 * time.Millisecond
	lookPause = 5 * time.Millisecond
)

// TryLockSoon is [TryLock], except that it waits for those that only look who holds
// the lock, as [Held] does.
func TryLockSoon(f *os.File) error {
	for end := time.Now().Add(lookTime); ; time.Sleep(lookPause) {
		if err := TryLock(f); !errors.Is(err, ErrLocked) || time.Now().After(end) {
			return err
		}
	}
}

// TryShare locks an open file or directory in a way that others can share. The error is
// [ErrLocked] if another process has it by [TryLock], which is refused while it is shared.
func TryShare(f *os.File) error { return flock(f, unix.LOCK_SH|unix.LOCK_NB) }

// Lock is [TryLock], except that it waits for another holder.
func Lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// Locked is a file that is locked until it is closed.
type Locked struct{ *os.File }

// Close releases the lock and closes the file. Without the first, a process that another
// goroutine starts would hold the lock until its own exec.
func (l *Locked) Close() error { return errors.Join(flock(l.File, unix.LOCK_UN), l.File.Close()) }

// LockIn opens a file below root, with flags for its opening, and locks it: how is for
// flock(2).
func LockIn(root *os.Root, name string, flags, how int) (*Locked, error) {
	f, err := root.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, how); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Locked{f}, nil
}

// WaitIn is [LockIn] that waits until ctx ends for a lock that another process holds
// ends. It makes the file if there is none.
func WaitIn(ctx context.Context, root *os.Root, name string) (*Locked, error) {
	for {
		f, err := LockIn(root, name, os.O_CREATE|os.O_RDWR, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, ErrLocked) {
			return f, err
		}
		if err := attended.Pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// Held reports whether another process holds the lock of an open file. It shares
// the lock for a moment, so who wants it uses [TryLockSoon].
func Held(f *os.File) (bool, error) {
	err := flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	if err == nil {
		err = flock(f, unix.LOCK_UN)
	}
	return false, err
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
	}
}
