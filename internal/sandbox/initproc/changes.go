package initproc

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
	"securebench/internal/unpack"
)

const (
	maxRefusedPath = 2048 // bytes of a path that an [ApplyError] has

	maxDepth = 256
)

// ApplyError says that the tree does not allow a change: its disk is full, say, or
// something is mounted there.
type ApplyError struct {
	Path  string // relative to the root; of a long one the beginning
	Errno syscall.Errno
}

// Error names the path and the system's reason.
func (e *ApplyError) Error() string { return fmt.Sprintf("changing /%s: %v", e.Path, e.Errno) }

// Unwrap returns the system's error number.
func (e *ApplyError) Unwrap() error { return e.Errno }

// applyArchive carries out a tar archive of changes below root. Each entry replaces
// whatever is at its path, with its owner and permissions; a folder that is
// there gets the entry's owner and permissions; an entry with
// [sandbox.DeletedRecord] removes. Folders that are missing above an entry belong
// to the owner of the folder that they are made in. An [*ApplyError] is
// the archive's fault and leaves what was done before it.
func applyArchive(root string, archive io.Reader) (err error) {
	dir, err := os.Open(root)
	if err != nil {
		return fmt.Errorf("opening the root: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	err = unpack.Tar(context.Background(), dir, archive, unpack.Options{
		Entries: math.MaxInt, Bytes: math.MaxInt64, Archive: math.MaxInt64, Depth: maxDepth - 1, // the sender bounds them
		Plan: planChange, Replace: true, InheritOwner: true,
	})
	var of *unpack.Error
	var errno syscall.Errno
	if errors.As(err, &of) && errors.As(of.Err, &errno) && errno != unix.EIO && errno != unix.ENOSYS { // else not the archive's fault
		return &ApplyError{Path: bounded.Text(strings.TrimSuffix(of.Name, "/"), maxRefusedPath), Errno: errno}
	}
	return err
}

// planChange refuses entries that no archive of changes has.
func planChange(h *tar.Header) (e unpack.Entry, err error) {
	e = unpack.Entry{Name: h.Name, Target: h.Linkname, Mode: uint32(h.Mode & 0o777), Owner: &unpack.Owner{UID: h.Uid, GID: h.Gid}}
	switch h.Typeflag {
	case tar.TypeReg:
		e.Kind = unpack.File
	case tar.TypeDir:
		e.Kind, e.Name = unpack.Folder, strings.TrimSuffix(h.Name, "/")
	case tar.TypeSymlink:
		e.Kind = unpack.Symlink
	default:
		return e, fmt.Errorf("type %q is not a file, folder or symbolic link", h.Typeflag)
	}
	if value, deletes := h.PAXRecords[sandbox.DeletedRecord]; deletes {
		if value != "1" || h.Typeflag != tar.TypeReg || h.Size != 0 {
			return e, errors.New("it is not a plain deletion")
		}
		e.Kind = unpack.Remove
	}
	first, _, _ := strings.Cut(e.Name, "/")
	switch {
	case !fs.ValidPath(e.Name) || strings.ContainsRune(e.Name, 0):
		return e, errors.New("it is not a path below the root")
	case h.Uid < 0 || h.Gid < 0 || h.Uid > maxID || h.Gid > maxID:
		return e, fmt.Errorf("the owner %d:%d is out of range", h.Uid, h.Gid)
	case unpack.Sparse(h):
		return e, errors.New("it has holes")
	case slices.Contains([]string{"proc", "sys", "dev", path.Base(sandbox.HelperDir)}, first):
		return e, unix.EPERM // what the engine mounts there is not the sandbox's own
	}
	return e, nil
}
