package require

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"securebench/internal/durable"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/mountns"
)

// The least that a machine has room for.
const (
	minBytes     = 1 << 30
	minInodes    = 50_000
	minProcesses = 1024
)

// tmpfs mounts one, and looks whether its bounds are those that were asked for.
func (c *checker) tmpfs(context.Context) (string, error) {
	const size, inodes = 1 << 20, 16
	target := filepath.Join(c.dir, "tmpfs")
	err := c.ns.Do(func() error {
		if err := os.Mkdir(target, 0o755); err != nil { //nolint:gosec // as in sandboxes
			return err
		}
		if err := (mountns.Tmpfs{Size: size, Inodes: inodes, Mode: 0o755}).Mount(target); err != nil {
			return err
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(target, &fs); err != nil {
			return fmt.Errorf("statfs: %w", err)
		}
		if got := int64(fs.Blocks) * fs.Bsize; got < size || got > size+64<<10 || fs.Files != inodes { //nolint:gosec // small
			return fmt.Errorf("asked for %d bytes and %d inodes, got %d and %d", size, inodes, got, fs.Files)
		}
		return mountns.Unmount(target)
	})
	return "bytes and inodes are bounded", err
}

// store looks whether images can be written, and whether there is room.
func (c *checker) store(context.Context) (found string, err error) {
	if c.images, err = c.imagesDir(); err != nil {
		return "", err
	}
	probe, remove, err := c.unfinished()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var fs unix.Statfs_t
	if err := unix.Statfs(probe, &fs); err != nil {
		return "", fmt.Errorf("asking for the room in %s: %w", c.images, err)
	}
	free := int64(fs.Bavail) * fs.Bsize //nolint:gosec // no disk has 2⁶³ bytes
	if free < minBytes {
		return "", fmt.Errorf("%s has room for %d MiB, not %d", c.images, free>>20, minBytes>>20)
	}
	if fs.Files > 0 && fs.Ffree < minInodes { // some file systems don't count them
		return "", fmt.Errorf("%s has room for %d files, not %d", c.images, fs.Ffree, minInodes)
	}
	return fmt.Sprintf("%d GiB free in %s", free>>30, c.images), nil
}

// unfinished makes a folder where the store has those that it fills: what a killed
// process leaves there is removed by the store, and what is locked is not.
func (c *checker) unfinished() (dir string, remove func() error, err error) {
	parent := filepath.Join(c.images, imagestore.UnfinishedDir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp(parent, "check-"); err != nil {
		return "", nil, err
	}
	lock, err := os.Open(dir) //nolint:gosec // ours
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(dir))
	}
	remove = func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }
	if err := durable.TryLock(lock); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return dir, remove, nil
}

// overlay mounts layers that lie where images do; the upper one deletes a file
// of the lower, below an upper folder in memory.
func (c *checker) overlay(context.Context) (found string, err error) {
	layers, remove, err := c.unfinished()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	lower, upper := filepath.Join(layers, "0"), filepath.Join(layers, "1")
	err = errors.Join(os.Mkdir(lower, 0o700), os.Mkdir(upper, 0o700), os.WriteFile(filepath.Join(lower, "kept"), nil, 0o600),
		os.WriteFile(filepath.Join(lower, "deleted"), nil, 0o600),
		os.Mkdir(filepath.Join(lower, "folder"), 0o700), os.WriteFile(filepath.Join(lower, "folder", "file"), nil, 0o600))
	if err != nil {
		return "", err
	}
	if err := unix.Mknod(filepath.Join(upper, "deleted"), unix.S_IFCHR, 0); err != nil {
		return "", fmt.Errorf("marking a file as deleted: %w", err)
	}
	return "layers of " + c.images + " below memory", c.ns.Do(func() error {
		memory, root := filepath.Join(c.dir, "memory"), filepath.Join(c.dir, "overlay")
		if err := makeMemory(memory, root, 0); err != nil {
			return err
		}
		if err := mountns.Overlay(root, []string{lower, upper}, filepath.Join(memory, "u"), filepath.Join(memory, "w")); err != nil {
			return err
		}
		_, kept := os.Stat(filepath.Join(root, "kept"))
		if _, err := os.Stat(filepath.Join(root, "deleted")); kept != nil || !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it does not show what the layers say: %w, %w", kept, err)
		}
		if err := os.Remove(filepath.Join(root, "kept")); err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(memory, "u", "kept")); err != nil {
			return fmt.Errorf("a deletion is not in the upper layer: %w", err)
		}
		if err := remade(filepath.Join(root, "folder")); err != nil {
			return err
		}
		return errors.Join(mountns.Unmount(root), mountns.Unmount(memory))
	})
}

// remade removes a folder of a layer and makes it anew, which takes an attribute in
// the upper layer. Without root that is one of a user's, which a tmpfs has from kernel 6.6 on.
func remade(folder string) error {
	err := os.RemoveAll(folder)
	if err == nil {
		err = os.Mkdir(folder, 0o700)
	}
	if err != nil {
		return fmt.Errorf("a folder of a layer cannot be removed: %w", err)
	}
	entries, err := os.ReadDir(folder)
	if err == nil && len(entries) > 0 {
		err = errors.New("a folder that was made anew is not empty")
	}
	return err
}

// makeMemory makes an empty folder and, in a tmpfs, the two that an overlay needs, which
// are the mapped root's.
func makeMemory(memory, root string, owner int) error {
	if err := errors.Join(os.Mkdir(memory, 0o711), os.Mkdir(root, 0o755)); err != nil { //nolint:gosec // passable
		return err
	}
	if err := (mountns.Tmpfs{Size: 1 << 20, Inodes: 256, Mode: 0o711}).Mount(memory); err != nil {
		return err
	}
	for _, name := range []string{"u", "w"} {
		dir := filepath.Join(memory, name)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, owner, owner)); err != nil { //nolint:gosec // a root
			return err
		}
	}
	return nil
}

// processes looks how many more there can be.
func (c *checker) processes(context.Context) (string, error) {
	free := int64(1) << 31
	load, err := os.ReadFile("/proc/loadavg") // "0.1 0.1 0.1 2/345 678": 345 threads
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(load), "/")
	count, _, _ := strings.Cut(after, " ")
	used, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return "", fmt.Errorf("reading /proc/loadavg: %w", err)
	}
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		text, err := os.ReadFile(file) //nolint:gosec // the kernel's
		if err != nil {
			return "", err
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", file, err)
		}
		free = min(free, limit-used)
	}
	if free < minProcesses {
		return "", fmt.Errorf("%d, not %d", free, minProcesses)
	}
	return strconv.FormatInt(free, 10), nil
}

// users maps the users of an overlay's layer and of a tmpfs.
func (c *checker) users(context.Context) (found string, err error) {
	if !c.runtime.Maps {
		return "", fmt.Errorf("%s takes none: its sandboxes have another kernel before them", c.runtime.Name)
	}
	if mountns.Rootless() {
		return "", errors.New("without root, all sandboxes share one user namespace")
	}
	ids, err := mountns.NewIDs(c.cfg.IDBase, c.cfg.IDSize)
	if err != nil {
		return "", err
	}
	if err := c.ns.Do(func() error { return c.mapped(ids) }); err != nil {
		return "", errors.Join(err, ids.Close())
	}
	c.ids = ids
	return fmt.Sprintf("the sandbox's root is user %d here", c.cfg.IDBase), nil
}

// mapped tries what a sandbox with a user namespace is mounted from.
func (c *checker) mapped(ids *mountns.IDs) error {
	base := filepath.Join(c.dir, "mapped")
	memory, root, bound, layer := filepath.Join(base, "memory"), filepath.Join(base, "root"), filepath.Join(base, "bound"), filepath.Join(base, "layer")
	err := errors.Join(os.Mkdir(base, 0o711), os.Mkdir(bound, 0o755), os.Mkdir(layer, 0o755)) //nolint:gosec // passable
	if err != nil {
		return err
	}
	if err := makeMemory(memory, root, ids.Base); err != nil {
		return err
	}
	if err := ids.Bind(memory, bound, false); err != nil {
		return fmt.Errorf("mapping a tmpfs: %w", err)
	}
	if err := ids.Bind(c.images, layer, true); err != nil {
		return fmt.Errorf("mapping %s: %w", c.images, err)
	}
	if err := mountns.Overlay(root, []string{layer}, filepath.Join(memory, "u"), filepath.Join(memory, "w")); err != nil {
		return fmt.Errorf("an overlay of a mapped layer: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil || fs.Flags&unix.ST_RDONLY != 0 {
		return errors.Join(errors.New("an overlay of a mapped layer cannot be written"), err)
	}
	return errors.Join(mountns.Unmount(root), mountns.Unmount(layer), mountns.Unmount(bound), mountns.Unmount(memory))
}
