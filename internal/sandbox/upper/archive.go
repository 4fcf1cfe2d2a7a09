package upper

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
)

// Archive writes trees of the root; see [sandbox.RootReader]. Sockets are left out:
// an archive has no type for them.
func (l Layer) Archive(ctx context.Context, paths []string, limit int64, w io.Writer) error {
	v, err := l.view(ctx)
	if err != nil {
		return fmt.Errorf("reading a root: %w", err)
	}
	defer v.close()
	out := &bounded.Writer{W: w, Left: limit, Err: sandbox.ErrTooLarge}
	a := &archiver{view: v, out: out, tw: tar.NewWriter(out), files: map[inode]*names{}, buf: make([]byte, bufSize)}
	for _, p := range paths {
		if err := a.tree(p); err != nil {
			return fmt.Errorf("reading %q of a root: %w", p, err)
		}
	}
	if err := a.tw.Close(); err != nil {
		return fmt.Errorf("ending the archive of a root: %w", err)
	}
	return nil
}

// archiver writes an archive.
type archiver struct {
	*view
	out   *bounded.Writer
	tw    *tar.Writer
	files map[inode]*names // those with other names that may come
	buf   []byte
}

// inode is a file, whatever its names.
type inode struct{ dev, ino uint64 }

// names are those of a file.
type names struct {
	first string
	left  uint64 // that were not seen
}

// tree writes the tree at an absolute path.
func (a *archiver) tree(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return errors.New("it is not a clean absolute path")
	}
	at := subfolder{layers: a.all()}
	if p == "/" {
		return a.folder(at)
	}
	parents := strings.Split(p[1:], "/")
	last := parents[len(parents)-1]
	for _, name := range parents[:len(parents)-1] {
		sub, err := a.look(at, name, nil)
		if err != nil || sub == nil {
			return err
		}
		at = *sub
	}
	sub, err := a.look(at, last, a.entry)
	if err != nil || sub == nil {
		return err
	}
	return a.folder(*sub)
}

// look finds a name in a folder. What is no folder is given to other, which may be
// nil; nothing is returned for it.
func (a *archiver) look(in subfolder, name string, other func(f found, name, p string) error) (sub *subfolder, err error) {
	f, err := a.open(in)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	p, ok, err := a.child(f, name)
	if err != nil || !ok {
		return nil, err
	}
	there, err := a.find(f.visible(), name)
	switch {
	case errors.Is(err, unix.ENAMETOOLONG): // there is no such name
		return nil, nil
	case err != nil || !there.there:
		return nil, err
	case len(there.folders) > 0:
		return &subfolder{path: p, layers: there.folders}, nil
	case other == nil:
		return nil, nil
	}
	return nil, other(there, name, p)
}

// folder writes a folder and all that is in it: first what is no folder, so that
// no folder has to stay open.
func (a *archiver) folder(s subfolder) error {
	f, err := a.open(s)
	if err != nil {
		return err
	}
	below, err := a.entries(f)
	if err = errors.Join(err, f.close()); err != nil {
		return err
	}
	for _, sub := range below {
		if err := a.folder(sub); err != nil {
			return err
		}
	}
	return nil
}

func (a *archiver) entries(f *folder) (below []subfolder, err error) {
	if f.path != "" {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.parts[0].dir.Fd()), &st); err != nil {
			return nil, err
		}
		h := a.newHeader(f.parts[0].layer, &st, f.path+"/")
		h.Typeflag = tar.TypeDir
		if err := a.tw.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	all, err := a.names(f.visible())
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		p, ok, err := a.child(f, name)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		there, err := a.find(f.visible(), name)
		switch {
		case err != nil:
		case len(there.folders) > 0:
			below = append(below, subfolder{path: p, layers: there.folders})
		case there.there:
			err = a.entry(there, name, p)
		}
		if err != nil {
			return nil, fmt.Errorf("archiving %q: %w", "/"+p, err)
		}
	}
	return below, nil
}

// entry writes what is no folder.
func (a *archiver) entry(f found, name, p string) error {
	h := a.newHeader(f.in.layer, &f.st, p)
	if t := f.st.Mode & unix.S_IFMT; t != unix.S_IFSOCK && a.again(h, &f.st) {
		return a.tw.WriteHeader(h)
	}
	switch f.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return a.file(h, f, name)
	case unix.S_IFLNK:
		target, err := readLink(f.in.dir, name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR:
		h.Typeflag = tar.TypeChar
	case unix.S_IFBLK:
		h.Typeflag = tar.TypeBlock
	default:
		return nil
	}
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		h.Devmajor, h.Devminor = int64(unix.Major(f.st.Rdev)), int64(unix.Minor(f.st.Rdev))
	}
	return a.tw.WriteHeader(h)
}

// again makes the header of a further name of a file a hard link, and reports
// whether it is one.
func (a *archiver) again(h *tar.Header, st *unix.Stat_t) bool {
	if st.Nlink < 2 {
		return false
	}
	key := inode{st.Dev, st.Ino}
	n := a.files[key]
	if n == nil {
		a.files[key] = &names{h.Name, uint64(st.Nlink) - 1} //nolint:unconvert // its width depends on the architecture
		return false
	}
	h.Typeflag, h.Linkname = tar.TypeLink, n.first
	if n.left--; n.left == 0 {
		delete(a.files, key)
	}
	return true
}

// file writes a regular file.
func (a *archiver) file(h *tar.Header, f found, name string) (err error) {
	content, err := openAt(f.in.dir, name, 0)
	if err != nil {
		return err
	}
	defer content.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(content.Fd()), &st); err != nil {
		return err
	}
	if st.Ino != f.st.Ino || st.Mode != f.st.Mode || st.Size != f.st.Size {
		return errors.New("it changes while it is read")
	}
	if err := a.refuse(content, "metacopy"); err != nil {
		return err
	}
	if st.Size > a.out.Left {
		return sandbox.ErrTooLarge // before a byte of it is read
	}
	h.Typeflag, h.Size = tar.TypeReg, st.Size
	// Capabilities of programs, as other engines' archives have them.
	if n, err := unix.Fgetxattr(int(content.Fd()), "security.capability", a.buf); err == nil {
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": string(a.buf[:n])}
	}
	if err := a.tw.WriteHeader(h); err != nil {
		return err
	}
	for left := st.Size; left > 0; {
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		n, err := io.ReadFull(content, a.buf[:min(left, bufSize)])
		if err != nil {
			return err
		}
		if _, err := a.tw.Write(a.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// newHeader makes the common part of a header.
func (v *view) newHeader(layer int, st *unix.Stat_t, name string) *tar.Header {
	u := v.owner(layer, st)
	return &tar.Header{Name: name, Mode: int64(st.Mode & 0o7777), Uid: u.UID, Gid: u.GID, ModTime: time.Unix(st.Mtim.Unix())}
}
