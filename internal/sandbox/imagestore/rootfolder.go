package imagestore

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/bounded"
)

// archiveFolder reads a folder that is a root file system as a tar stream: in order, with links, owners, modes and
// times, and without devices and sockets. Equal folders give equal streams.
func archiveFolder(ctx context.Context, dir string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		out := tar.NewWriter(w)
		a := &archiver{ctx: ctx, root: root, out: out, seen: make(map[inode]string)}
		err := fs.WalkDir(root.FS(), ".", a.add)
		if err == nil {
			err = out.Close()
		}
		w.CloseWithError(errors.Join(err, root.Close()))
	}()
	return r, nil
}

type archiver struct {
	ctx  context.Context
	root *os.Root
	out  *tar.Writer
	seen map[inode]string // files with several names
}

type inode struct{ dev, ino uint64 }

func (a *archiver) add(name string, d fs.DirEntry, err error) error {
	if err == nil {
		err = context.Cause(a.ctx)
	}
	if err != nil || name == "." {
		return err
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	if info.Mode()&(fs.ModeDevice|fs.ModeSocket|fs.ModeIrregular) != 0 {
		return nil
	}
	h, err := a.header(name, info)
	if err != nil {
		return err
	}
	if err := a.out.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	return a.content(name, h.Size)
}

func (a *archiver) header(name string, info fs.FileInfo) (*tar.Header, error) {
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if link, err = a.root.Readlink(name); err != nil {
			return nil, err
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return nil, err
	}
	// Names of users are this machine's, and only the time of content is kept.
	h.Name, h.Uname, h.Gname, h.Format = name, "", "", tar.FormatPAX
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	if info.IsDir() {
		h.Name += "/"
	}
	if strings.HasPrefix(filepath.Base(name), ".wh.") {
		return nil, fmt.Errorf("%s: a name that begins with %q means a deleted file in a layer", name, ".wh.")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && info.Mode().IsRegular() {
		if st.Nlink > 1 {
			key := inode{st.Dev, st.Ino}
			if first, seen := a.seen[key]; seen {
				h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
				return h, nil
			}
			a.seen[key] = name
		}
		return h, a.capability(name, h)
	}
	return h, nil
}

// capability adds the one extended attribute that programs of systems have.
func (a *archiver) capability(name string, h *tar.Header) error {
	const attribute = "security.capability"
	f, err := a.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	value := make([]byte, 64)
	n, err := unix.Fgetxattr(int(f.Fd()), attribute, value)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: reading %s: %w", name, attribute, err)
	}
	h.PAXRecords = map[string]string{"SCHILY.xattr." + attribute: string(value[:n])}
	return nil
}

func (a *archiver) content(name string, size int64) error {
	f, err := a.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(a.out, bounded.Until(a.ctx, f), size); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}
