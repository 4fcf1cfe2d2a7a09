package checkout

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"securebench/internal/repository"
	"securebench/internal/sandbox"
)

// contents are the files of a tree, one after the other in a temporary file
// without a name.
type contents struct {
	mu      sync.Mutex
	file    *os.File // nil when closed
	size    int64
	offsets map[string]int64
	failed  error // of writing, which is this machine's fault
}

func newContents() (*contents, error) {
	f, err := os.CreateTemp("", "securebench-checkout-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("making a temporary file: %w", err), f.Close())
	}
	return &contents{file: f, offsets: make(map[string]int64)}, nil
}

// keep adds the content of an entry. It is for [repository.Read].
func (c *contents) keep(path string, _ repository.Entry, content io.Reader) error {
	in := &sandbox.Input{Reader: content}
	n, err := io.Copy(c.file, in)
	if err != nil {
		if in.Err == nil {
			c.failed = fmt.Errorf("writing a temporary file: %w", err)
		}
		return err
	}
	c.offsets[path] = c.size
	c.size += n
	return nil
}

// read returns the content of an entry, and checks that it is still the same.
func (c *contents) read(path string, e repository.Entry) ([]byte, error) {
	if c == nil {
		return nil, fmt.Errorf("reading %q of the pristine tree: its contents were not kept", path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	offset, ok := c.offsets[path]
	if !ok || c.file == nil {
		return nil, fmt.Errorf("reading %q of the pristine tree: %w", path, os.ErrClosed)
	}
	b := make([]byte, e.Size)
	if _, err := c.file.ReadAt(b, offset); err != nil {
		return nil, fmt.Errorf("reading %q of the pristine tree: %w", path, err)
	}
	if sha256.Sum256(b) != e.Sum {
		return nil, fmt.Errorf("reading %q of the pristine tree: the temporary file is damaged", path)
	}
	return b, nil
}

func (c *contents) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}
