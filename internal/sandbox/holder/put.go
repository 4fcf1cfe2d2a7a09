package holder

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
	"time"

	"golang.org/x/sys/unix"
)

// put unpacks the directories and regular files of an archive into the tree.
// The archive wins: whatever else has a name that it needs is removed, and
// a directory without permissions gets them until the end.
func put(root *os.Root, archive io.Reader) error {
	u := &unpacker{root: root}
	err := u.all(tar.NewReader(archive))
	// Modes come last, deepest first: a directory that is to be read-only
	// must be filled before, also when the rest failed.
	return errors.Join(err, u.setModes())
}

type unpacker struct {
	root  *os.Root
	modes []dirMode
}

// dirMode is the mode that a directory gets at the end.
type dirMode struct {
	name    string
	mode    fs.FileMode
	modTime time.Time
}

func (u *unpacker) all(tr *tar.Reader) error {
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if err := u.one(h, tr); err != nil {
			return fmt.Errorf("unpacking %q: %w", h.Name, err)
		}
	}
}

func (u *unpacker) one(h *tar.Header, content io.Reader) error {
	name, err := entryName(h.Name)
	if err != nil {
		return err
	}
	switch {
	case h.Typeflag == tar.TypeDir && name == ".":
		return nil // the root belongs to whoever made the workspace
	case h.Typeflag == tar.TypeDir:
		dir, err := u.enter(name)
		if err != nil {
			return err
		}
		u.modes = append(u.modes, dirMode{name, h.FileInfo().Mode().Perm(), h.ModTime})
		return dir.Close()
	case h.Typeflag == tar.TypeReg && name != "." && !sparse(h):
		return u.file(name, h, content)
	}
	return fmt.Errorf("type %q is neither a plain file nor a directory", h.Typeflag)
}

// sparse reports whether an entry has holes, so that a few bytes of archive
// could become a terabyte of zeros.
func sparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// entryName checks and cleans a name. Names that leave the tree are refused, never
// repaired.
func entryName(name string) (string, error) {
	parts := strings.Split(name, "/")
	if name == "" || parts[0] == "" || strings.ContainsRune(name, 0) || slices.Contains(parts, "..") {
		return "", errors.New("it is not a path inside the tree")
	}
	clean := path.Clean(name)
	if strings.Count(clean, "/") >= MaxDepth {
		return "", fmt.Errorf("it is deeper than %d", MaxDepth)
	}
	return clean, nil
}

// enter opens directory name and makes what is missing on the way.
func (u *unpacker) enter(name string) (*os.Root, error) {
	dir, err := u.root.OpenRoot(".")
	if err != nil || name == "." {
		return dir, err
	}
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		sub, err := u.step(dir, part, at)
		if err = errors.Join(err, dir.Close()); err != nil {
			return nil, err
		}
		dir = sub
	}
	return dir, nil
}

// step opens or makes directory part of dir; at is its whole name.
func (u *unpacker) step(dir *os.Root, part, at string) (*os.Root, error) {
	info, err := dir.Lstat(part)
	if err == nil && !info.IsDir() {
		if err := dir.Remove(part); err != nil {
			return nil, err
		}
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := dir.Mkdir(part, 0o755); err != nil {
			return nil, err
		}
		return openDir(dir, part)
	}
	if err != nil {
		return nil, err
	}
	if perm := info.Mode().Perm(); perm&0o700 != 0o700 {
		u.modes = append(u.modes, dirMode{at, perm, time.Time{}})
		if err := chmod(dir, part, perm|0o700); err != nil {
			return nil, err
		}
	}
	return openDir(dir, part)
}

func (u *unpacker) file(name string, h *tar.Header, content io.Reader) (err error) {
	dir, err := u.enter(path.Dir(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	base := path.Base(name)
	if err := dir.RemoveAll(base); err != nil {
		return err
	}
	f, err := dir.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Chmod(h.FileInfo().Mode().Perm())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return setTime(dir, base, h.ModTime)
}

// setModes gives directories their modes, the latest word first.
func (u *unpacker) setModes() error {
	var errs []error
	done := make(map[string]bool, len(u.modes))
	slices.Reverse(u.modes)
	slices.SortStableFunc(u.modes, func(a, b dirMode) int {
		return strings.Count(b.name, "/") - strings.Count(a.name, "/")
	})
	for _, m := range u.modes {
		if done[m.name] {
			continue
		}
		done[m.name] = true
		err := setTime(u.root, m.name, m.modTime)
		errs = append(errs, err, chmod(u.root, m.name, m.mode))
	}
	return errors.Join(errs...)
}

// setTime sets a modification time; an archive without one says 1970.
func setTime(dir *os.Root, name string, t time.Time) error {
	if t.IsZero() || t.Unix() == 0 {
		return nil
	}
	return dir.Chtimes(name, t, t)
}
