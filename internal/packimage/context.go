package packimage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"securebench/internal/source"
)

// The bounds of the files that one image is built from.
const (
	maxFiles = 1 << 16
	maxBytes = 4 << 30
)

// epoch is the time of every file that an image is built from: only names,
// content and the permission to execute count.
func epoch() time.Time { return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) }

// archive writes the files of an image as a tar stream that depends on names,
// only content and the permission to execute. Anything but files and folders
// is an error: a link could lead out of the pack.
func (p Pack) archive(ctx context.Context, name string, out io.Writer) error {
	dir := filepath.Join(p.Dir, Folder, name)
	root, err := p.open(Folder, name)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	defer root.Close()
	a := archiver{root: root, dir: dir, tar: tar.NewWriter(out)}
	err = fs.WalkDir(source.FS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || name == "." {
			return err
		}
		return a.add(name, d)
	})
	if err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	return a.tar.Close()
}

type archiver struct {
	root  *os.Root
	dir   string
	tar   *tar.Writer
	files int
	bytes int64
}

func (a *archiver) add(name string, d fs.DirEntry) error {
	if a.files++; a.files > maxFiles {
		return fmt.Errorf("it has more than %d files", maxFiles)
	}
	if d.IsDir() {
		return a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: epoch(), Format: tar.FormatPAX})
	}
	f, err := source.OpenIn(a.root, name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if a.bytes += info.Size(); a.bytes > maxBytes {
		return fmt.Errorf("its files are larger than %d bytes", int64(maxBytes))
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: mode, ModTime: epoch(), Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(a.tar, f, info.Size()); err != nil {
		return fmt.Errorf("%s changed while it was read: %w", name, err)
	}
	return nil
}
