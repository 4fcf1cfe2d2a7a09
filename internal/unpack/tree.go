package unpack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tree is what lies below the folder.
type tree struct {
	root  int
	depth int // of the root itself
	o     Options

	// The parent of the latest entry: entries of one folder follow each other.
	cachedName string
	cached     int // -1 is none

	later map[string]later // by names of folders
}

// later are attributes that a folder gets at the end: each new file changes its time,
// and what is to be read-only must be filled before.
type later struct {
	mode int64 // -1: the one that it has
	time time.Time
}

// close gives folders what comes last. Those that another entry replaced are left.
func (t *tree) close() error {
	t.forget()
	var errs []error
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(t.later))) { // the deepest first
		parent, err := t.open(path.Dir(name))
		if err != nil {
			if !missing(err) {
				errs = append(errs, err)
			}
			continue
		}
		base, l := path.Base(name), t.later[name]
		var st unix.Stat_t
		if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && isFolder(&st) {
			err = setTime(parent, base, l.time)
			if l.mode >= 0 {
				err = errors.Join(err, chmod(parent, base, uint32(l.mode)))
			}
			errs = append(errs, err)
		}
		unix.Close(parent)
	}
	return errors.Join(errs...)
}

func (t *tree) forget() {
	if t.cached >= 0 {
		unix.Close(t.cached)
		t.cached = -1
	}
}

// missing tells the errors of a path that does not lead to a folder.
func missing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// open opens a folder.
func (t *tree) open(name string) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	if t.o.Follow {
		how.Resolve = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	}
	return retry(func() (int, error) { return unix.Openat2(t.root, name, how) })
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

// parent returns the folder with a name, which stays open until the next call. It may
// make what is missing of it.
func (t *tree) parent(name string, create bool) (int, error) {
	if t.cached >= 0 && t.cachedName == name {
		return t.cached, nil
	}
	fd, err := t.open(name)
	var st unix.Stat_t
	if err == nil && t.o.Unprivileged && name != "." && unix.Fstat(fd, &st) == nil && closed(&st) {
		unix.Close(fd)
		err = unix.EACCES
	}
	if create && name != "." && (missing(err) || t.o.Unprivileged && errors.Is(err, unix.EACCES)) {
		fd, err = t.makeParent(name, err)
	}
	if err != nil {
		return -1, err
	}
	if depth, err := t.depthOf(fd); err != nil || depth > t.depth+t.o.Depth {
		unix.Close(fd)
		return -1, errTooDeep()
	}
	t.forget()
	t.cached, t.cachedName = fd, name
	return fd, nil
}

func errTooDeep() error { return Refuse("its folders are nested too deep") }

// depthOf asks the kernel how deep a folder is: links make folders deeper than a name
// is long.
func (t *tree) depthOf(fd int) (int, error) {
	if !t.o.Follow {
		return 0, nil
	}
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlink(self(fd), buffer)
	return bytes.Count(buffer[:max(n, 0)], []byte("/")), err
}

// closed reports whether something is a folder whose owner cannot list and change it.
func closed(st *unix.Stat_t) bool { return isFolder(st) && st.Mode&0o700 != 0o700 }

// openUp lets the owner of a folder list and change it.
func openUp(parent int, base string, st *unix.Stat_t) error {
	return chmod(parent, base, st.Mode&0o7777|0o700)
}

// makeParent makes or opens up a folder for an entry, which could not be used for a
// reason.
func (t *tree) makeParent(name string, reason error) (int, error) {
	above, err := t.parent(path.Dir(name), true)
	if err != nil {
		return -1, err
	}
	base := path.Base(name)
	var st unix.Stat_t
	err = unix.Fstatat(above, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil && isFolder(&st):
		if t.o.Unprivileged && closed(&st) {
			if _, known := t.later[name]; !known {
				t.later[name] = later{mode: int64(st.Mode & 0o7777)}
			}
			err = openUp(above, base, &st)
		}
	case err == nil && !t.o.ReplaceParents && !t.isWhiteout(&st):
		return -1, reason
	case err == nil || errors.Is(err, unix.ENOENT):
		err = t.newParent(above, base)
	}
	if err != nil {
		return -1, err
	}
	return t.open(name)
}

func (t *tree) newParent(above int, base string) error {
	if err := t.makeFolder(above, base); err != nil || !t.o.InheritOwner {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(above, "", &st, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	if err := unix.Fchownat(above, base, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return chmod(above, base, 0o755)
}

// makeFolder makes a folder where there is none.
func (t *tree) makeFolder(parent int, base string) error {
	err := unix.Mkdirat(parent, base, 0o755)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || isFolder(&st) {
		return err
	}
	if err := t.replace(parent, base, func() error { return unix.Mkdirat(parent, base, 0o755) }); err != nil || !t.isWhiteout(&st) {
		return err
	}
	return t.makeOpaque(parent, base)
}

// create makes a file and opens it for writing.
func (t *tree) create(parent int, base string) (fd descriptor, err error) {
	err = t.replace(parent, base, func() error {
		n, err := retry(func() (int, error) {
			return unix.Openat(parent, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		})
		fd = descriptor(n)
		return err
	})
	return fd, err
}

// descriptor is an open file, without what an [os.File] costs: there are many.
type descriptor int

func (d descriptor) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = retry(func() (int, error) { return unix.Write(int(d), b[n:]) })
		n += max(m, 0)
	}
	return n, err
}

// special makes what is neither file nor folder.
func (t *tree) special(parent int, base string, e Entry) error {
	switch e.Kind {
	case Symlink:
		return t.replace(parent, base, func() error { return unix.Symlinkat(e.Target, parent, base) })
	case HardLink:
		return t.hardLink(parent, base, e)
	case Pipe:
		return t.replace(parent, base, func() error { return unix.Mknodat(parent, base, unix.S_IFIFO|0o600, 0) })
	}
	return fmt.Errorf("the unknown kind %d", e.Kind)
}

// hardLink makes a second name for a file of the tree.
func (t *tree) hardLink(parent int, base string, e Entry) error {
	if e.Target == "." || e.Target == e.Name {
		return Refuse("a hard link to itself or to the root")
	}
	folder, err := t.open(path.Dir(e.Target))
	if err != nil {
		return Refuse("a hard link to %.200q, which is not in the archive", e.Target)
	}
	defer unix.Close(folder)
	var st, old unix.Stat_t
	target := path.Base(e.Target)
	if err := unix.Fstatat(folder, target, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || t.isWhiteout(&st) || isFolder(&st) {
		return Refuse("a hard link to %.200q, which is not a file of the archive", e.Target)
	}
	if unix.Fstatat(parent, base, &old, unix.AT_SYMLINK_NOFOLLOW) == nil && old.Ino == st.Ino && old.Dev == st.Dev {
		return nil // they are one file already
	}
	return t.replace(parent, base, func() error { return unix.Linkat(folder, target, parent, base, 0) })
}

// replace makes something new, if that may be instead of what is there.
func (t *tree) replace(parent int, base string, do func() error) error {
	err := do()
	if !errors.Is(err, unix.EEXIST) || !t.o.Replace {
		return err
	}
	if err := t.remove(parent, base); err != nil {
		return err
	}
	return do()
}

// remove removes what may be there, a folder with all that is in it.
func (t *tree) remove(parent int, base string) error {
	// The cached folder, which may be the parent itself, can be another one now.
	t.cachedName = ""
	err := unix.Unlinkat(parent, base, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR):
		return err
	}
	// An empty folder goes whatever its mode is.
	if err = unix.Unlinkat(parent, base, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	var st unix.Stat_t
	if t.o.Unprivileged && unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && closed(&st) {
		if err := openUp(parent, base, &st); err != nil {
			return err
		}
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		if errors.Is(err, io.EOF) {
			return unix.Unlinkat(parent, base, unix.AT_REMOVEDIR)
		}
		for _, name := range names {
			if err == nil {
				err = t.remove(fd, name)
			}
		}
		if err == nil {
			_, err = f.Seek(0, io.SeekStart) // what is behind in a folder that shrinks may move
		}
		if err != nil {
			return err
		}
	}
}

// attributes gives what an entry made its owner, mode and time, in the order in which
// none undoes another.
func (t *tree) attributes(parent int, base string, e Entry) error {
	var st unix.Stat_t
	switch e.Kind {
	case File:
		st.Mode = unix.S_IFREG
	case Folder:
		st.Mode = unix.S_IFDIR
	default:
		if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if o := e.Owner; o != nil {
		if err := unix.Fchownat(parent, base, o.UID, o.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("making %d:%d its owner: %w", o.UID, o.GID, err)
		}
	}
	kind, last := st.Mode&unix.S_IFMT, later{-1, e.Time}
	if isFolder(&st) && t.o.Unprivileged {
		last.mode = int64(e.Mode)
	} else if kind != unix.S_IFLNK {
		if err := chmod(parent, base, e.Mode); err != nil {
			return fmt.Errorf("setting its mode: %w", err)
		}
	}
	if isFolder(&st) && last != (later{mode: -1}) {
		t.later[e.Name] = last
	}
	if e.Finish != nil && (kind == unix.S_IFREG || isFolder(&st)) {
		if err := e.Finish(self(parent) + "/" + base); err != nil {
			return err
		}
	}
	return setTime(parent, base, e.Time)
}

// chmod sets a mode without following a link, if the kernel can: from 6.6 on.
func chmod(parent int, base string, mode uint32) error {
	err := unix.Fchmodat(parent, base, mode, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return ChmodByName(parent, base, mode)
	}
	return err
}

// ChmodByName sets the mode of what has a name in an open folder and is no link. A link
// that takes its place meanwhile leads no further than to what the caller may change anyway.
func ChmodByName(parent int, base string, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if base == ".." || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return fmt.Errorf("%q leads elsewhere: %w", base, unix.EOPNOTSUPP)
	}
	return unix.Fchmodat(parent, base, mode, 0)
}

func setTime(parent int, base string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	ts := unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
	if err := unix.UtimesNanoAt(parent, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("setting its time: %w", err)
	}
	return nil
}

// self is a path of an open folder.
func self(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func isFolder(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// isWhiteout tells what overlayfs takes for a deleted name.
func (t *tree) isWhiteout(st *unix.Stat_t) bool {
	return t.o.OpaqueMark != "" && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// whiteout hides a name of the layers below. What this layer has of that name stays: a
// folder then begins empty.
func (t *tree) whiteout(parent int, base string) error {
	err := unix.Mknodat(parent, base, unix.S_IFCHR, 0)
	if !errors.Is(err, unix.EEXIST) {
		if err != nil {
			err = fmt.Errorf("making a whiteout: %w", err)
		}
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || !isFolder(&st) {
		return err
	}
	return t.makeOpaque(parent, base)
}

// makeOpaque makes a folder hide those of the layers below.
func (t *tree) makeOpaque(parent int, base string) error {
	if err := unix.Lsetxattr(self(parent)+"/"+base, t.o.OpaqueMark, []byte("y"), 0); err != nil {
		return fmt.Errorf("setting %s: %w", t.o.OpaqueMark, err)
	}
	return nil
}
