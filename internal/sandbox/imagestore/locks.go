package imagestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"securebench/internal/durable"
)

// All locks are on open files, so the kernel releases them when a process dies.
// Who holds more than one took them in this order: "lock", "adding", one of "waits"
// or of "uses". Only "lock", which is held for a moment, and "waits" are waited for
// while others are held.

// exclusive waits until no other process reads or changes the index.
func (s *Store) exclusive() (*durable.Locked, error) { return s.locked(lockFile, unix.LOCK_EX) }

// shared waits until no other process changes the index.
func (s *Store) shared() (*durable.Locked, error) { return s.locked(lockFile, unix.LOCK_SH) }

// locked opens a file and locks it; closing it releases the lock.
func (s *Store) locked(name string, how int) (*durable.Locked, error) {
	return durable.LockIn(s.root, name, os.O_CREATE|os.O_RDWR, how)
}

// lease keeps an image from being removed as long as this process uses it.
type lease struct {
	users int
	lock  *durable.Locked
}

// lease is called while the index is locked.
func (s *Store) lease(id string) (release func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[id]
	if l == nil {
		lock, err := s.locked(filepath.Join(usesDir, hexOf(id)), unix.LOCK_SH|unix.LOCK_NB)
		if err != nil {
			return nil, err
		}
		l = &lease{lock: lock}
		s.leases[id] = l
	}
	l.users++
	done := false
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if done {
			return nil
		}
		done = true
		if l.users--; l.users > 0 {
			return nil
		}
		delete(s.leases, id)
		return l.lock.Close()
	}, nil
}

// unused reports whether no process uses an image. It is called while the index is
// locked exclusively, so the answer holds until that ends.
func (s *Store) unused(id string) (bool, error) {
	f, err := s.locked(filepath.Join(usesDir, hexOf(id)), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, durable.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// waitFor waits until no other process unpacks a layer.
func (s *Store) waitFor(ctx context.Context, diffID string) (*durable.Locked, error) {
	return durable.WaitIn(ctx, s.root, filepath.Join(waitsDir, hexOf(diffID)))
}
