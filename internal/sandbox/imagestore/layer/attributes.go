package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// attributes gives what an entry made its owner, mode, extended attributes and
// times, in the order in which none undoes another.
func (u *unpacker) attributes(parent int, base string, h *tar.Header) error {
	var st unix.Stat_t
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if u.o.Owners {
		if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) >= math.MaxUint32 || int64(h.Gid) >= math.MaxUint32 {
			return bad("owner %d:%d", h.Uid, h.Gid)
		}
		if err := unix.Fchownat(parent, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("making %d:%d its owner: %w", h.Uid, h.Gid, err)
		}
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFLNK { // so no link is followed
		if err := unix.Fchmodat(parent, base, uint32(h.Mode)&0o7777, 0); err != nil {
			return fmt.Errorf("setting its mode: %w", err)
		}
	}
	if kind == unix.S_IFREG || kind == unix.S_IFDIR {
		if err := u.extended(parent, base, h); err != nil {
			return err
		}
	}
	return setTime(parent, base, timeOf(h))
}

// kept tells which extended attributes are taken over: those that programs of the
// image may depend on. Others belong to the kernel's parts that made them, such as
// overlayfs, for which they would be orders.
func kept(name string) bool {
	return name == "security.capability" || strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}

func (u *unpacker) extended(parent int, base string, h *tar.Header) error {
	const prefix = "SCHILY.xattr."
	for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		name, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		if !kept(name) {
			u.leaveOut(h.Name, "attribute "+short(name))
			continue
		}
		err := unix.Lsetxattr(self(parent)+"/"+base, name, []byte(h.PAXRecords[key]), 0)
		switch {
		case errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM):
			u.leaveOut(h.Name, "attribute "+short(name)+", which cannot be set here")
		case errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ERANGE) || errors.Is(err, unix.EINVAL):
			return bad("attribute %s: %v", short(name), err)
		case err != nil:
			return fmt.Errorf("setting attribute %s: %w", short(name), err)
		}
	}
	return nil
}

// timeOf returns the time of an entry. Those before 1970 and after 2262 are 1970,
// as with Docker.
func timeOf(h *tar.Header) unix.Timespec {
	t := h.ModTime.Unix()
	if t < 0 || t > math.MaxInt64/int64(time.Second) {
		return unix.Timespec{}
	}
	return unix.Timespec{Sec: t, Nsec: int64(h.ModTime.Nanosecond())}
}

func setTime(parent int, base string, t unix.Timespec) error {
	if err := unix.UtimesNanoAt(parent, base, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("setting its time: %w", err)
	}
	return nil
}

// folderTimes sets the times of folders. Those that a later entry replaced have none.
func (u *unpacker) folderTimes() error {
	for _, f := range u.folders {
		parent, err := u.open(path.Dir(f.name))
		if err != nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstatat(parent, path.Base(f.name), &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = setTime(parent, path.Base(f.name), f.time)
		} else {
			err = nil
		}
		unix.Close(parent)
		if err != nil {
			return err
		}
	}
	return nil
}
