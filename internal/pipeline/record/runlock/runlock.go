// Package runlock locks a run's output directory against other processes.
package runlock

import (
	"errors"
	"fmt"
	"os"

	"securebench/internal/durable"
	"securebench/internal/source"
)

// ErrHeld is returned by [Take] if another process uses the directory.
var ErrHeld = errors.New("another securebench process is using the output directory")

// Lock is held until it is closed. The kernel releases it when the process ends,
// even if it is killed.
type Lock struct{ files []*os.File }

// Take locks a directory and the file in it that has a name, because that can be
// removed.
func Take(root *os.Root, name string) (*Lock, error) {
	dir, err := lock(root.Open("."))
	if err != nil {
		return nil, err
	}
	file, err := lock(source.OpenIn(root, name, os.O_CREATE|os.O_RDWR, 0o644))
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &Lock{[]*os.File{dir, file}}, nil
}

func lock(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, fmt.Errorf("locking the output directory: %w", err)
	}
	err = durable.TryLockSoon(f)
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

// Close releases the lock.
func (l *Lock) Close() error {
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
