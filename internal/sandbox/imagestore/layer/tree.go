package layer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// tree is the folder of a layer. All paths are resolved by the kernel as if the
// folder were the root of the file system, as Docker does: a link within the layer
// is followed, but nothing leads out.
type tree struct {
	root   int
	depth  int // of the root itself
	opaque string

	// The parent of the latest entry: entries of one folder follow each other.
	cachedName string
	cached     int // -1 is none
}

func (t *tree) close() error {
	t.forget()
	return unix.Close(t.root)
}

func (t *tree) forget() {
	if t.cached >= 0 {
		unix.Close(t.cached)
		t.cached = -1
	}
}

// open opens a folder.
func (t *tree) open(name string) (int, error) {
	return unix.Openat2(t.root, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// parent returns the folder with a name, which stays open until the next call, and
// makes those that the layer has no entry for.
func (t *tree) parent(name string) (int, error) {
	if t.cached >= 0 && t.cachedName == name {
		return t.cached, nil
	}
	fd, err := t.open(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		fd, err = t.makeParent(name)
	}
	if err != nil {
		return -1, classify(err)
	}
	if depth, err := depthOf(fd); err != nil || depth > t.depth+maxDepth {
		unix.Close(fd)
		return -1, bad("its folders are nested too deep")
	}
	t.forget()
	t.cached, t.cachedName = fd, name
	return fd, nil
}

// maxDepth bounds how deep folders are nested, so that each can be removed again.
// Links make them deeper than a name is long, hence the question to the kernel.
const maxDepth = 256

func depthOf(fd int) (int, error) {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlink(self(fd), buffer)
	return bytes.Count(buffer[:max(n, 0)], []byte("/")), err
}

// makeParent makes a folder for an entry. Only a whiteout may be in its place.
func (t *tree) makeParent(name string) (int, error) {
	parent, err := t.parent(path.Dir(name))
	if err != nil {
		return -1, err
	}
	base := path.Base(name)
	var st unix.Stat_t
	err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return t.open(name)
	case err == nil && !isWhiteout(&st):
		return -1, bad("%s, which contains it, is not a folder", short(name))
	case err != nil && !errors.Is(err, unix.ENOENT):
		return -1, err
	}
	if err := t.makeFolder(parent, base); err != nil {
		return -1, err
	}
	return t.open(name)
}

// makeFolder makes a folder where there is none.
func (t *tree) makeFolder(parent int, base string) error {
	err := unix.Mkdirat(parent, base, 0o755)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if err := t.remove(parent, base); err != nil {
		return err
	}
	if err := unix.Mkdirat(parent, base, 0o755); err != nil || !isWhiteout(&st) {
		return err
	}
	return t.makeOpaque(parent, base)
}

// replace makes something new, if need be instead of what is there.
func (t *tree) replace(parent int, base string, do func() error) error {
	err := do()
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := t.remove(parent, base); err != nil {
		return err
	}
	return do()
}

// remove removes what is there. A folder whose name is used again for something
// else goes with all that is in it.
func (t *tree) remove(parent int, base string) error {
	// The cached folder, which may be the parent itself, can be another one now.
	t.cachedName = ""
	err := unix.Unlinkat(parent, base, 0)
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	root, err := os.OpenRoot(self(parent))
	if err != nil {
		return err
	}
	return errors.Join(root.RemoveAll(base), root.Close())
}

// self is a path of an open folder.
func self(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// isWhiteout tells what overlayfs takes for a deleted name.
func isWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// whiteout hides a name of the layers below. What this layer has of that name
// stays: a folder then begins empty.
func (t *tree) whiteout(parent int, base string) error {
	if base == whiteoutOpaque {
		return t.makeOpaque(parent, ".")
	}
	name := base[len(whiteoutPrefix):]
	if name == "" || name == "." || name == ".." {
		return bad("a whiteout of no name")
	}
	err := unix.Mknodat(parent, name, unix.S_IFCHR, 0)
	if !errors.Is(err, unix.EEXIST) {
		if err != nil {
			err = fmt.Errorf("making a whiteout: %w", err)
		}
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return t.makeOpaque(parent, name)
	}
	return nil
}

// makeOpaque makes a folder hide those of the layers below.
func (t *tree) makeOpaque(parent int, base string) error {
	if err := unix.Lsetxattr(self(parent)+"/"+base, t.opaque, []byte("y"), 0); err != nil {
		return fmt.Errorf("setting %s: %w", t.opaque, err)
	}
	return nil
}
