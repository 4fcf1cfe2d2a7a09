package durable

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// Flush is a flush to disk in the background. Nil has ended.
type Flush struct {
	done chan struct{}
	err  error
}

// Wait waits for the end of the flush. Without an error, what it flushes is on disk.
func (f *Flush) Wait() error {
	if f == nil {
		return nil
	}
	<-f.done
	return f.err
}

// Flusher flushes in the background: a disk takes milliseconds for each flush, and
// hardly longer for several at a time. The zero value is ready.
type Flusher struct{ flushes sync.WaitGroup }

// Go begins a flush.
func (f *Flusher) Go(flush func() error) *Flush {
	started := &Flush{done: make(chan struct{})}
	f.flushes.Go(func() {
		defer close(started.done)
		started.err = flush()
	})
	return started
}

// Wait waits for the end of every flush.
func (f *Flusher) Wait() { f.flushes.Wait() }

// CommitLater renames the file to name, which it replaces, and then flushes both in
// the background. Until that has ended, a power cut can leave a part of the file;
// nothing that is on disk may refer to it before.
func (f *File) CommitLater(flusher *Flusher, name string) (*Flush, error) {
	f.done = true
	if err := f.root.Rename(f.temp, name); err != nil {
		return nil, errors.Join(err, f.Close(), f.remove())
	}
	return flusher.Go(func() error { return errors.Join(f.Sync(), f.Close(), SyncDir(f.root, path.Dir(name))) }), nil
}

// WriteLater is [WriteFile] with a flush in the background, as of [File.CommitLater].
func WriteLater(flusher *Flusher, root *os.Root, name string, data []byte, mode fs.FileMode) (*Flush, error) {
	f, err := write(root, name, data, mode)
	if err != nil {
		return nil, err
	}
	return f.CommitLater(flusher, name)
}

// SyncAll makes the whole file system of a directory durable.
func SyncAll(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return errors.Join(&os.SyscallError{Syscall: "syncfs", Err: err}, dir.Close())
	}
	return dir.Close()
}
