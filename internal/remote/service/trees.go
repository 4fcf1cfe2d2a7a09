package service

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"securebench/internal/agent/setup"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/remote"
)

// archived writes trees to files, which have no name any more, and describes them. What
// workers get stays the same, whatever becomes of the operator's own files meanwhile.
func archived(trees []setup.Tree) (out []remote.Tree, files map[string]*os.File, err error) {
	files = map[string]*os.File{}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(files))
		}
	}()
	for _, t := range trees {
		f, sum, size, err := archive(t)
		if err != nil {
			return nil, files, fault.As(fault.Infrastructure, fmt.Errorf("reading %s for workers: %w", t.Title, err))
		}
		out = append(out, remote.Tree{Key: t.Key, Title: t.Title, Program: t.Program, Images: t.Images, Digest: sum, Size: size})
		if files[sum] != nil {
			err = f.Close()
		} else {
			files[sum] = f
		}
		if err != nil {
			return nil, files, err
		}
	}
	return out, files, nil
}

// archive writes one tree to a file.
func archive(t setup.Tree) (_ *os.File, sum string, size int64, err error) {
	f, err := os.CreateTemp("", "securebench-tree-")
	if err != nil {
		return nil, "", 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, "", 0, err
	}
	h := sha256.New()
	if err := t.Write(io.MultiWriter(f, h)); err != nil {
		return nil, "", 0, err
	}
	size, err = f.Seek(0, io.SeekCurrent)
	if err == nil && size > remote.MaxTree {
		err = fmt.Errorf("it has more than %d bytes", remote.MaxTree)
	}
	return f, digest.Format(h.Sum(nil)), size, err
}

// closeAll closes files.
func closeAll(files map[string]*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
