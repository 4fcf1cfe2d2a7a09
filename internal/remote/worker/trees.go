package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
)

// treesName is the folder in the cache that keeps archives from one run to the next.
const treesName = "trees"

// MostTrees bounds the archives of agents' trees in a worker's cache, in bytes. One that
// is needed is kept anyway.
const MostTrees = 8 << 30

// errTree refuses a tree that is not what the hub says.
var errTree = errNo{"the tree that it has for agents has another digest"}

// trees are archives in the cache, by digest. Workers on a machine may share them.
type trees struct {
	dir  string
	most int64

	mu sync.Mutex // one is fetched at a time
}

// open returns an archive, which get provides if it is not there. It may have been kept
// for a while, so whoever reads it checks it.
func (t *trees) open(tree remote.Tree, get func(*arrival) error) (*stored, error) {
	name, err := digest.Hex(tree.Digest)
	if err != nil || tree.Size < 0 || tree.Size > remote.MaxTree {
		return nil, errNo{"it describes a tree for agents that cannot be"}
	}
	name = filepath.Join(t.dir, name)
	t.mu.Lock()
	defer t.mu.Unlock()
	f, err := reopen(name, tree.Size)
	if err != nil {
		if f, err = t.fetch(name, tree, get); err != nil {
			return nil, fmt.Errorf("keeping a tree for agents: %w", err)
		}
		t.sweep(name)
	}
	return &stored{file: f, name: name, hash: sha256.New(), want: tree.Digest}, nil
}

// reopen opens an archive that is there, and makes it the last that is removed.
func reopen(name string, size int64) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() != size) {
		err = fs.ErrInvalid
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	now := time.Now()
	_ = os.Chtimes(name, now, now) // or else it goes earlier
	return f, nil
}

// arrival is an archive on its way.
type arrival struct {
	file *os.File
	hash hash.Hash
	has  int64
}

// Write keeps what has come. An error is of this machine, and ends the way.
func (a *arrival) Write(p []byte) (int, error) {
	n, err := a.file.Write(p)
	a.hash.Write(p[:n])
	if a.has += int64(n); err != nil {
		err = errHere{err}
	}
	return n, err
}

// errHere is an error of this machine, which asking the hub again does not change.
type errHere struct{ error }

// Unwrap returns the error.
func (e errHere) Unwrap() error { return e.error }

// fetch writes an archive, which appears whole and checked.
func (t *trees) fetch(name string, tree remote.Tree, get func(*arrival) error) (_ *os.File, err error) {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(t.dir, partPrefix)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	a := &arrival{file: f, hash: sha256.New()}
	if err := get(a); err != nil {
		return nil, err
	}
	if digest.Format(a.hash.Sum(nil)) != tree.Digest {
		return nil, errTree
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return f, os.Rename(f.Name(), name)
}

// partPrefix begins the names of archives that are not whole.
const partPrefix = ".part-"

// abandoned is the age at which nobody is at work any more on what is not whole.
const abandoned = 24 * time.Hour

// sweep removes what was never finished and, while there is too much, what was not needed
// for the longest time.
func (t *trees) sweep(needed string) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return // it is tried again
	}
	var all []fs.FileInfo
	var sum int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all, sum = append(all, info), sum+info.Size()
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range all {
		name, goes := filepath.Join(t.dir, info.Name()), sum > t.most
		if strings.HasPrefix(info.Name(), partPrefix) {
			goes = time.Since(info.ModTime()) > abandoned
		}
		if goes && name != needed && os.Remove(name) == nil {
			sum -= info.Size()
		}
	}
}

// stored is an archive of the cache that is read once. Its end is an error if it is not
// what was stored.
type stored struct {
	file *os.File
	name string
	hash hash.Hash
	want string
}

func (s *stored) Read(p []byte) (int, error) {
	n, err := s.file.Read(p)
	s.hash.Write(p[:n])
	if errors.Is(err, io.EOF) && digest.Format(s.hash.Sum(nil)) != s.want {
		err = errors.Join(errors.New("a tree for agents in the cache is damaged"), os.Remove(s.name)) // it is fetched again
	}
	return n, err
}

// Close closes the archive.
func (s *stored) Close() error { return s.file.Close() }

// tree provides a tree for the agent of an attempt, with the ticket of the job that the
// attempt has here.
func (s *session) tree(ctx context.Context, key record.AttemptKey, tree remote.Tree) (io.ReadCloser, error) {
	s.mu.Lock()
	c := s.calls[key]
	s.mu.Unlock()
	if c == nil {
		return nil, errors.New("there is no job for this agent")
	}
	return s.trees.open(tree, func(a *arrival) error {
		return s.withTicket(ctx, c.held, c.ticket, func(ticket string, _ bool) error { return s.download(ctx, ticket, tree, a) })
	})
}

// download goes on with an archive where it was cut off.
func (s *session) download(ctx context.Context, ticket string, tree remote.Tree, a *arrival) error {
	if a.has == tree.Size {
		return nil
	}
	in, err := s.rest(ctx, ticket, "/blob/"+tree.Digest, a.has)
	if err != nil {
		return err
	}
	_, err = io.Copy(a, io.LimitReader(in, tree.Size-a.has+1))
	switch err = errors.Join(err, in.Close()); {
	case a.has > tree.Size:
		return errTree
	case err == nil && a.has < tree.Size:
		return io.ErrUnexpectedEOF
	}
	return err
}
