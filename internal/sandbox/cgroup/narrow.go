package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// used are the controllers of version 1 that an OCI runtime sets for a sandbox.
func used() []string { return append(needed(), "devices") }

// Narrow leaves in the mount namespace of this thread, which is private, only those
// hierarchies of version 1 that sandboxes use: a runtime makes a group in every one that
// it sees, and crun takes no machine that has version 2 beside version 1. Where sandboxes
// use version 2, nothing is changed. dir is a folder for nothing else.
func Narrow(dir string) (version int, err error) {
	mounts, err := mounted()
	if err == nil && slices.ContainsFunc(mounts, func(m mount) bool { return m.v2 && m.point == unified }) {
		return 2, nil
	}
	if err == nil {
		err = narrow(mounts, dir)
	}
	if err != nil {
		return 0, fmt.Errorf("control groups: leaving those that sandboxes use: %w", err)
	}
	return 1, nil
}

// narrow makes a tree of the hierarchies that sandboxes use, in the place of all.
func narrow(mounts []mount, dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,nr_inodes=64,mode=755"); err != nil {
		return fmt.Errorf("mounting a tmpfs: %w", err)
	}
	var names []string
	for _, m := range mounts {
		if !slices.ContainsFunc(used(), func(name string) bool { return slices.Contains(m.controllers, name) }) {
			continue
		}
		name := strings.TrimPrefix(m.point, unified+"/")
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.point, at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.point, err)
		}
		names = append(names, name)
	}
	if err := copyLinks(dir, names); err != nil {
		return err
	}
	return replace(dir)
}

// mounted are the hierarchies that this thread sees.
func mounted() ([]mount, error) {
	mountinfo, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	self, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return nil, err
	}
	return visible(parseMounts(string(mountinfo), parseMemberships(string(self)))), nil
}

// copyLinks copies the names that one hierarchy of several controllers has.
func copyLinks(dir string, names []string) error {
	entries, err := os.ReadDir(unified)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		to, err := os.Readlink(filepath.Join(unified, e.Name()))
		if err != nil {
			return err
		}
		if !slices.Contains(names, to) {
			continue
		}
		if err := os.Symlink(to, filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// replace puts the tree at dir in the place of the hierarchies. Nothing can be made
// beside them: what a runtime makes there by mistake would be the host's.
func replace(dir string) error {
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting a tmpfs read-only: %w", err)
	}
	for {
		err := unix.Unmount(unified, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) { // it is no mount any more
			break
		}
		if err != nil {
			return fmt.Errorf("unmounting %s: %w", unified, err)
		}
	}
	if err := unix.Mount(dir, unified, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the tree to %s: %w", unified, err)
	}
	return nil
}
