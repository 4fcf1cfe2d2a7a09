package native

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"securebench/internal/digest"
)

// digest returns the digest of a tree: names, types, modes, owners, links and
// contents.
func (s *overlayStore) digest(ctx context.Context, dir string) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(s.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		return s.digestEntry(sum, name, name[len(dir):], d)
	})
	return digest.Format(sum.Sum(nil)), err
}

func (s *overlayStore) digestEntry(sum hash.Hash, name, shown string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	content := ""
	switch info.Mode().Type() {
	case 0:
		f, err := s.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		of := sha256.New()
		_, err = io.Copy(of, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		content = digest.Format(of.Sum(nil))
	case fs.ModeSymlink:
		if content, err = s.root.Readlink(name); err != nil {
			return err
		}
	case fs.ModeDir:
	default:
		return fmt.Errorf("%s is not a folder, file or link", path.Base(name))
	}
	_, err = fmt.Fprintf(sum, "%v %q %q\n", info.Mode(), shown, content)
	return err
}
