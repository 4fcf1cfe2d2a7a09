package capture

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"securebench/internal/digest"
	"securebench/internal/source"
)

// Store keeps candidates by the digest of their bytes. Equal candidates are
// stored once. It is safe for concurrent use.
type Store struct{ root *os.Root }

// OpenStore opens the store in dir, which must exist.
func OpenStore(dir string) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the candidate store: %w", err)
	}
	return &Store{root}, nil
}

// Close releases the store.
func (s *Store) Close() error { return s.root.Close() }

// Put stores the candidate's bytes and flushes them to disk. A file that is
// already there under that name must hold exactly these bytes.
func (s *Store) Put(c Candidate) error {
	name, err := digest.Hex(c.Digest)
	if err != nil {
		return err
	}
	if _, err := s.Get(c.Digest); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrDamaged) {
		return err
	}
	// A name of its own: two workers may store equal candidates at once.
	tmp := "." + name + "." + rand.Text()
	if err := s.write(tmp, c.Data); err != nil {
		return fmt.Errorf("storing candidate %s: %w", c.Digest, errors.Join(err, s.root.Remove(tmp)))
	}
	if err := s.root.Rename(tmp, name); err != nil {
		return fmt.Errorf("storing candidate %s: %w", c.Digest, errors.Join(err, s.root.Remove(tmp)))
	}
	return s.sync()
}

// sync makes new names durable.
func (s *Store) sync() error {
	d, err := s.root.Open(".")
	if err != nil {
		return fmt.Errorf("flushing the candidate store: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *Store) write(name string, data []byte) error {
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// ErrDamaged is returned by [Store.Get] when the stored bytes do not have the
// digest that their name says.
var ErrDamaged = errors.New("stored candidate is damaged")

// maxStored is the largest candidate that a limit can allow, in bytes.
const maxStored = 256 << 20

// Get returns the bytes of a stored candidate after checking their digest.
func (s *Store) Get(sum string) ([]byte, error) {
	name, err := digest.Hex(sum)
	if err != nil {
		return nil, err
	}
	data, err := source.ReadFileIn(s.root, name, maxStored)
	if err != nil {
		return nil, fmt.Errorf("reading candidate %s: %w", sum, err)
	}
	if digest.Bytes(data) != sum {
		return nil, fmt.Errorf("reading candidate %s: %w", sum, ErrDamaged)
	}
	return data, nil
}
