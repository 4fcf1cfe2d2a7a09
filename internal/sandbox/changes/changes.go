// Package changes carries out archives of changes to a file tree: what a
// candidate adds, replaces and deletes. It follows no link, and nothing else may
// change the tree meanwhile.
package changes

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

const (
	// MaxPath is the most bytes of a path that an [Error] has.
	MaxPath = 2048

	maxDepth = 256
	maxID    = 1<<32 - 2 // the largest user or group id; the next one means "no change"
	copySize = 64 << 10
)

// Error says that the tree does not allow a change: its disk is full, say, or
// something is mounted there.
type Error struct {
	Path  string // relative to the root; of a long one the beginning
	Errno syscall.Errno
}

// Error names the path and the system's reason.
func (e *Error) Error() string { return fmt.Sprintf("changing /%s: %v", e.Path, e.Errno) }

// Unwrap returns the system's error number.
func (e *Error) Unwrap() error { return e.Errno }

// Apply carries out a tar archive of changes below root. Each entry replaces
// whatever is at its path, with its owner and permissions; a folder that is
// there gets the entry's owner and permissions; an entry with
// [sandbox.DeletedRecord] removes. Folders that are missing above an entry belong
// to the owner of the folder that they are made in. An [*Error] is the archive's fault and leaves what was done before it.
func Apply(root string, archive io.Reader) error {
	fd, err := unix.Open(root, folderFlags, 0)
	if err != nil {
		return fmt.Errorf("opening the root: %w", err)
	}
	c := &changer{fds: []int{fd}, buf: make([]byte, copySize)}
	defer c.up(0)
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			// What follows the end is read, too: an error of the sender's can
			// come as late as that.
			_, err = io.CopyBuffer(io.Discard, archive, c.buf)
			return err
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if err := checkChange(h); err != nil {
			return fmt.Errorf("the archive's entry %q: %w", h.Name[:min(len(h.Name), MaxPath)], err)
		}
		if err := c.one(h, tr); err != nil {
			return err
		}
	}
}

// checkChange refuses entries that no archive of changes has, and cleans the
// name.
func checkChange(h *tar.Header) error {
	if h.Typeflag == tar.TypeDir {
		h.Name = strings.TrimSuffix(h.Name, "/")
	}
	switch {
	case h.Name == "." || !fs.ValidPath(h.Name) || strings.ContainsRune(h.Name, 0):
		return errors.New("it is not a path below the root")
	case strings.Count(h.Name, "/") >= maxDepth:
		return fmt.Errorf("it is deeper than %d", maxDepth)
	case h.Uid < 0 || h.Gid < 0 || h.Uid > maxID || h.Gid > maxID:
		return fmt.Errorf("the owner %d:%d is out of range", h.Uid, h.Gid)
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeSymlink:
		return fmt.Errorf("type %q is not a file, folder or symbolic link", h.Typeflag)
	}
	for name, value := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return errors.New("it has holes")
		}
		if name == sandbox.DeletedRecord && (value != "1" || h.Typeflag != tar.TypeReg || h.Size != 0) {
			return errors.New("it is no plain deletion")
		}
	}
	return nil
}

// changer changes files. It keeps the folders above the last entry open, since
// archives are sorted.
type changer struct {
	fds  []int    // of the root and the folders below it
	path []string // the names of these folders
	buf  []byte
}

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// openFolder opens a folder of another one. It follows no link: not in the
// name, which is a single one, and not to it.
func openFolder(dir int, name string) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat2(dir, name, &unix.OpenHow{Flags: folderFlags,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	})
}

// retry repeats a call that a signal interrupts.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// one carries out one entry.
func (c *changer) one(h *tar.Header, content io.Reader) error {
	err := c.replace(h, content)
	var errno syscall.Errno
	var broken *archiveError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &broken), !errors.As(err, &errno), errno == unix.EIO, errno == unix.ENOSYS: // not the archive's fault
		return fmt.Errorf("changing %q: %w", h.Name[:min(len(h.Name), MaxPath)], err)
	}
	return &Error{Path: strings.ToValidUTF8(h.Name[:min(len(h.Name), MaxPath)], ""), Errno: errno}
}

func (c *changer) replace(h *tar.Header, content io.Reader) error {
	parts := strings.Split(h.Name, "/")
	// What the engine mounts there is not the sandbox's own.
	if slices.Contains([]string{"proc", "sys", "dev", path.Base(sandbox.HelperDir)}, parts[0]) {
		return unix.EPERM
	}
	parents, name := parts[:len(parts)-1], parts[len(parts)-1]
	_, deletes := h.PAXRecords[sandbox.DeletedRecord]
	dir, err := c.down(parents, !deletes)
	if deletes {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil // nothing is there
		}
		if err == nil {
			err = remove(dir, name)
		}
		return err
	}
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return c.folder(dir, name, h)
	case tar.TypeSymlink:
		return c.link(dir, name, h)
	}
	return c.file(dir, name, h, content)
}

// down opens the folder with a path, and makes what is missing of it.
func (c *changer) down(parents []string, create bool) (fd int, err error) {
	common := 0
	for common < len(parents) && common < len(c.path) && parents[common] == c.path[common] {
		common++
	}
	c.up(common + 1)
	for _, name := range parents[common:] {
		last := c.fds[len(c.fds)-1]
		fd, err := openFolder(last, name)
		if errors.Is(err, unix.ENOENT) && create {
			var above unix.Stat_t
			if err := unix.Fstat(last, &above); err != nil {
				return 0, err
			}
			fd, err = makeFolder(last, name, 0o755, int(above.Uid), int(above.Gid))
		}
		if err != nil {
			return 0, err
		}
		c.fds, c.path = append(c.fds, fd), append(c.path, name)
	}
	return c.fds[len(c.fds)-1], nil
}

// up closes all open folders but the first.
func (c *changer) up(keep int) {
	for _, fd := range c.fds[keep:] {
		_ = unix.Close(fd)
	}
	c.fds, c.path = c.fds[:keep], c.path[:max(keep-1, 0)]
}

// makeFolder makes a folder and opens it.
func makeFolder(dir int, name string, mode uint32, uid, gid int) (int, error) {
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return 0, err
	}
	fd, err := openFolder(dir, name)
	if err != nil {
		return 0, err
	}
	if err := own(fd, mode, uid, gid); err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// own sets the owner first: that can take permissions away.
func own(fd int, mode uint32, uid, gid int) error {
	if err := unix.Fchown(fd, uid, gid); err != nil {
		return err
	}
	return unix.Fchmod(fd, mode)
}

// permissions are what an entry can set: no set-user-ID bit, for one.
func permissions(h *tar.Header) uint32 { return uint32(h.Mode & 0o777) }

func (c *changer) folder(dir int, name string, h *tar.Header) error {
	fd, err := openFolder(dir, name)
	if err != nil {
		if err := remove(dir, name); err != nil {
			return err
		}
		if fd, err = makeFolder(dir, name, permissions(h), h.Uid, h.Gid); err != nil {
			return err
		}
		return unix.Close(fd)
	}
	return errors.Join(own(fd, permissions(h), h.Uid, h.Gid), unix.Close(fd))
}

func (c *changer) link(dir int, name string, h *tar.Header) error {
	err := replacing(dir, name, func() error { return unix.Symlinkat(h.Linkname, dir, name) })
	if err != nil {
		return err
	}
	return unix.Fchownat(dir, name, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW)
}

func (c *changer) file(dir int, name string, h *tar.Header, content io.Reader) error {
	var fd int
	err := replacing(dir, name, func() (err error) {
		fd, err = retry(func() (int, error) {
			return unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		})
		return err
	})
	if err != nil {
		return err
	}
	err = c.write(fd, content)
	if err == nil {
		err = own(fd, permissions(h), h.Uid, h.Gid)
	}
	return errors.Join(err, unix.Close(fd))
}

// archiveError is one of reading the archive, whatever number it has.
type archiveError struct{ cause error }

func (e *archiveError) Error() string { return "reading the archive: " + e.cause.Error() }
func (e *archiveError) Unwrap() error { return e.cause }

// write copies an entry's content.
func (c *changer) write(fd int, content io.Reader) error {
	for {
		n, rerr := content.Read(c.buf)
		for b := c.buf[:n]; len(b) > 0; {
			m, err := retry(func() (int, error) { return unix.Write(fd, b) })
			if err != nil {
				return err
			}
			b = b[m:]
		}
		if errors.Is(rerr, io.EOF) {
			return nil
		}
		if rerr != nil {
			return &archiveError{rerr}
		}
	}
}

// replacing makes something, in the place of what is there.
func replacing(dir int, name string, create func() error) error {
	err := create()
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := remove(dir, name); err != nil {
		return err
	}
	return create()
}

// remove removes whatever has a name, with all that is below it. Nothing is
// fine, too.
func remove(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR):
		return err
	}
	fd, err := openFolder(dir, name)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := remove(fd, n); err != nil {
			return err
		}
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}
