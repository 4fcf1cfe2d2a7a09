package mountns_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox/mountns"
)

// namespace makes a namespace for one test, and returns the folder of its tmpfs.
func namespace(t *testing.T) (*mountns.Namespace, string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting takes root")
	}
	dir := t.TempDir()
	n, err := mountns.New(dir)
	if errors.Is(err, unix.EPERM) {
		t.Skipf("this machine lets nobody mount: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n, dir
}

// mounts is what this process, outside of any namespace, sees.
func mounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNamespaceIsPrivate(t *testing.T) {
	n, dir := namespace(t)
	sub := filepath.Join(dir, "sub")
	err := n.Do(func() error {
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
		return mountns.Tmpfs{Size: 1 << 20, Inodes: 10, Mode: 0o700, UID: 7, GID: 8}.Mount(sub)
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(mounts(t), dir) {
		t.Error("the host sees the namespace's mounts")
	}
	if _, err := os.Stat(sub); err == nil {
		t.Error("the host sees a folder of the namespace")
	}
	var out bytes.Buffer
	cmd := exec.Command("stat", "-c", "%a %u %g", dir, sub)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := errors.Join(n.Start(cmd), cmd.Wait()); err != nil {
		t.Fatal(err, out.String())
	}
	if got, want := out.String(), "711 0 0\n700 7 8\n"; got != want {
		t.Errorf("a child sees %q, want %q", got, want)
	}
}

// TestClose shows that a namespace is gone when Close returns.
func TestClose(t *testing.T) {
	n, _ := namespace(t)
	var before syscall.Stat_t
	err := n.Do(func() error { return syscall.Stat("/proc/thread-self/ns/mnt", &before) })
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	tasks, err := filepath.Glob("/proc/self/task/*/ns/mnt")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	for _, task := range tasks {
		var now syscall.Stat_t
		if err := syscall.Stat(task, &now); err == nil && now.Ino == before.Ino {
			t.Errorf("%s is still in the namespace", task)
		}
	}
	if err := n.Do(func() error { return nil }); !errors.Is(err, mountns.ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
}

func TestTmpfsIsBounded(t *testing.T) {
	n, dir := namespace(t)
	err := n.Do(func() error {
		if err := (mountns.Tmpfs{Mode: 0o755}).Mount(dir); err == nil {
			t.Error("a tmpfs without bounds was mounted")
		}
		target := filepath.Join(dir, "t")
		if err := os.Mkdir(target, 0o755); err != nil {
			return err
		}
		if err := (mountns.Tmpfs{Size: 64 << 10, Inodes: 3, Mode: os.ModeSticky | 0o777}).Mount(target); err != nil {
			return err
		}
		if info, err := os.Stat(target); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if err := os.WriteFile(filepath.Join(target, "a"), make([]byte, 128<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("writing more than there is room for: %v", err)
		}
		if err := os.WriteFile(filepath.Join(target, "b"), nil, 0o600); err != nil {
			t.Errorf("the second file: %v", err)
		}
		if err := os.WriteFile(filepath.Join(target, "c"), nil, 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("one file too many: %v", err)
		}
		if err := unix.Mknod(filepath.Join(target, "b"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err == nil {
			t.Error("a node replaced a file")
		}
		return mountns.Unmount(target)
	})
	if err != nil {
		t.Error(err)
	}
}

// layers makes folders that each hold a file of their own, and one that all have.
func layers(dir string, count int) (folders []string, err error) {
	for i := range count {
		// A long name: mount options have one page for all of them.
		layer := filepath.Join(dir, "layers", fmt.Sprintf("sha256-%064d", i))
		folders = append(folders, layer)
		err = errors.Join(err, os.MkdirAll(layer, 0o755),
			os.WriteFile(filepath.Join(layer, fmt.Sprint("file", i)), nil, 0o644),
			os.WriteFile(filepath.Join(layer, "all"), []byte(fmt.Sprint(i)), 0o644))
	}
	return folders, err
}

func TestOverlay(t *testing.T) {
	for _, count := range []int{1, 2, 127, mountns.MaxLayers} {
		for _, writable := range []bool{false, true} {
			t.Run(fmt.Sprint(count, writable), func(t *testing.T) {
				n, dir := namespace(t)
				if err := n.Do(func() error { return tryOverlay(dir, count, writable) }); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func tryOverlay(dir string, count int, writable bool) error {
	folders, err := layers(dir, count)
	root, upper, work := filepath.Join(dir, "root"), filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{root, upper, work} {
		err = errors.Join(err, os.Mkdir(d, 0o755))
	}
	if err != nil {
		return err
	}
	if !writable {
		upper, work = "", ""
	}
	before, err := os.Readlink("/proc/thread-self/cwd")
	if err != nil {
		return err
	}
	if err := mountns.Overlay(root, folders, upper, work); err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != count+1 {
		return fmt.Errorf("%d entries, want %d: %w", len(entries), count+1, err)
	}
	if top, err := os.ReadFile(filepath.Join(root, "all")); err != nil || string(top) != fmt.Sprint(count-1) {
		return fmt.Errorf("the last layer is not the highest: the file is of layer %q, %w", top, err)
	}
	if err := os.WriteFile(filepath.Join(root, "new"), nil, 0o644); (err == nil) != writable {
		return fmt.Errorf("writing: %w", err)
	}
	if after, err := os.Readlink("/proc/thread-self/cwd"); err != nil || after != before {
		return fmt.Errorf("the working directory was %q and is %q, %w", before, after, err)
	}
	text, err := os.ReadFile("/proc/thread-self/mounts")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "overlay "+root+" ") && strings.Count(line, dir) > 1 {
			return fmt.Errorf("the list of mounts shows where the layers are: %s", line)
		}
	}
	return err
}

func TestOverlayKeepsNothing(t *testing.T) {
	n, dir := namespace(t)
	err := n.Do(func() error {
		if err := mountns.Overlay(filepath.Join(dir, "none"), []string{dir, "/proc/none"}, "", ""); err == nil {
			t.Error("an overlay of a folder that does not exist was mounted")
		}
		entries, err := os.ReadDir(dir)
		if len(entries) > 0 {
			t.Errorf("a failed mount left %v", entries)
		}
		if err := mountns.Overlay(dir, make([]string, mountns.MaxLayers+1), "", ""); err == nil {
			t.Error("too many layers were mounted")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBind(t *testing.T) {
	ids, err := mountns.NewIDs(1_000_000, 65536)
	if err != nil {
		t.Skipf("no user namespaces: %v", err)
	}
	defer ids.Close()
	for _, mapping := range []*mountns.IDs{nil, ids} {
		t.Run(fmt.Sprint("mapped ", mapping != nil), func(t *testing.T) {
			n, dir := namespace(t)
			if err := n.Do(func() error { return tryBind(dir, mapping) }); err != nil {
				t.Error(err)
			}
		})
	}
}

func tryBind(dir string, mapping *mountns.IDs) error {
	source, target, file := filepath.Join(dir, "source"), filepath.Join(dir, "target"), filepath.Join(dir, "file")
	err := errors.Join(os.Mkdir(source, 0o755), os.Mkdir(target, 0o755), os.WriteFile(file, nil, 0o644),
		os.WriteFile(filepath.Join(source, "f"), []byte("of 7"), 0o644), os.Chown(filepath.Join(source, "f"), 7, 8))
	if err != nil {
		return err
	}
	if err := mapping.Bind(source, target, false); err != nil {
		return err
	}
	base := 0
	if mapping != nil {
		base = mapping.Base
		if err := mapping.Maps(source); err != nil {
			return err
		}
		if err := mapping.Maps("/proc"); err == nil {
			return errors.New("a file system that cannot be mapped is said to be")
		}
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(filepath.Join(target, "f"), &stat); err != nil || int(stat.Uid) != base+7 || int(stat.Gid) != base+8 {
		return fmt.Errorf("the file is %d:%d's with the base %d, %w", stat.Uid, stat.Gid, base, err)
	}
	if err := mapping.Bind(filepath.Join(source, "f"), file, true); err != nil {
		return err
	}
	if err := os.WriteFile(file, nil, 0o644); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("writing to a read-only file: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(target, &fs); err != nil || fs.Flags&unix.ST_NOSUID == 0 || fs.Flags&unix.ST_NODEV == 0 {
		return fmt.Errorf("the mount's flags are %#x, %w", fs.Flags, err)
	}
	return errors.Join(mountns.Unmount(file), mountns.Unmount(target))
}

func TestClosedMapping(t *testing.T) {
	ids, err := mountns.NewIDs(1_000_000, 65536)
	if err != nil {
		t.Skipf("no user namespaces: %v", err)
	}
	if err := errors.Join(ids.Close(), ids.Close(), (*mountns.IDs)(nil).Close()); err != nil {
		t.Fatal(err)
	}
	if err := ids.Bind("/proc", "/proc", true); !errors.Is(err, os.ErrClosed) {
		t.Errorf("binding with a closed mapping: %v", err)
	}
	if _, err := mountns.NewIDs(0, 65536); err == nil {
		t.Error("a mapping to root was made")
	}
}

// TestHostUnmounts has the host unmount what was mounted before the namespace was
// made: a namespace that keeps it would keep its memory, or a disk that is to be removed.
func TestHostUnmounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting takes root")
	}
	outer := t.TempDir()
	if err := unix.Mount("tmpfs", outer, "tmpfs", 0, "size=1m"); errors.Is(err, unix.EPERM) {
		t.Skipf("this machine lets nobody mount: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mountns.Unmount(outer); err != nil {
			t.Error(err)
		}
	})
	inner := filepath.Join(outer, "inner")
	err := errors.Join(unix.Mount("", outer, "", unix.MS_SHARED, ""), os.Mkdir(inner, 0o755), unix.Mount("tmpfs", inner, "tmpfs", 0, "size=1m"))
	if err != nil {
		t.Fatal(err)
	}
	n, _ := namespace(t)
	has := func() (has bool) {
		err := n.Do(func() error {
			text, err := os.ReadFile("/proc/thread-self/mountinfo")
			has = strings.Contains(string(text), " "+inner+" ")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return has
	}
	if !has() {
		t.Error("the namespace does not begin with what the host has")
	}
	if err := mountns.Unmount(inner); err != nil {
		t.Fatal(err)
	}
	if has() {
		t.Error("the namespace keeps what the host unmounted")
	}
}
