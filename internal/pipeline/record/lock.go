package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"securebench/internal/durable"
	"securebench/internal/source"
)

// ErrHeld is returned by [Open] if another process uses the directory.
var ErrHeld = errors.New("another securebench process is using the output directory")

// Busy reports whether a runner holds the lock of a run's directory. What is no file of
// this machine, as in a bundle, is held by nobody.
func Busy(dir fs.FS) (bool, error) {
	f, err := dir.Open(LockName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for a runner: %w", err)
	}
	defer f.Close()
	file, ok := f.(*os.File)
	if !ok {
		return false, nil
	}
	held, err := durable.Held(file)
	if err != nil {
		return false, fmt.Errorf("looking for a runner: %w", err)
	}
	return held, nil
}

// locks are held until they are closed. The kernel releases them when the process
// ends, even if it is killed.
type locks []*os.File

// lockDir locks a directory and [LockName] in it, because that can be removed, with a
// function for both.
func lockDir(root *os.Root, try func(*os.File) error) (locks, error) {
	dir, err := root.Open(".")
	if dir, err = lock(dir, err, try); err != nil {
		return nil, err
	}
	file, err := source.OpenIn(root, LockName, os.O_CREATE|os.O_RDWR, 0o644)
	file, err = lock(file, err, try)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return locks{dir, file}, nil
}

func lock(f *os.File, err error, try func(*os.File) error) (*os.File, error) {
	if err != nil {
		return nil, fmt.Errorf("locking the output directory: %w", err)
	}
	err = try(f)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, durable.ErrLocked):
		err = ErrHeld
	default:
		err = fmt.Errorf("locking the output directory: %w", err)
	}
	return nil, errors.Join(err, f.Close())
}

// close releases the locks.
func (l locks) close() error {
	var errs []error
	for _, f := range l {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
