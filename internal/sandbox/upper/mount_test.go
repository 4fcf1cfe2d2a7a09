package upper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

// inNamespace runs a test on a thread with a mount namespace of its own, in a
// folder that is an empty tmpfs. The thread, and with it what was mounted, ends
// with the test.
func inNamespace(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount file systems")
	}
	dir := t.TempDir()
	t.Run("mounted", func(t *testing.T) {
		runtime.LockOSThread() // and never unlocked
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "mode=755")
		}
		if err != nil {
			t.Skipf("no file systems can be mounted here: %v", err)
		}
		test(t, dir)
	})
}

// stack is an overlay with several layers.
type stack struct {
	dir    string
	lower  []string // the lowest first
	target string   // where all layers are mounted, the last one writable
}

// newStack makes an overlay, whose lower layers are made by fill as well. mounted
// says in which of them the kernel itself writes the marks; the others are like
// layers of images, and the lowest always is.
func newStack(t testing.TB, dir string, lower int, mounted func(n int) bool, fill func(n int, root string)) *stack {
	t.Helper()
	s := &stack{dir: dir}
	for n := range lower + 1 {
		at := filepath.Join(dir, fmt.Sprint(n))
		err := errors.Join(os.MkdirAll(at+"/upper", 0o755), os.Mkdir(at+"/work", 0o755), os.Mkdir(at+"/merged", 0o755))
		mount := n > 0 && (n == lower || mounted(n))
		if err == nil && mount {
			err = s.mount(at+"/merged", fmt.Sprintf(",upperdir=%s/upper,workdir=%s/work", at, at))
		}
		if err != nil {
			t.Fatalf("making layer %d in %s: %v", n, at, err)
		}
		s.target = at + "/merged"
		if !mount {
			s.target = at + "/upper"
		}
		fill(n, s.target)
		if n < lower {
			if mount { // a layer is not to be used by two mounts
				if err := unix.Unmount(s.target, 0); err != nil {
					t.Fatal(err)
				}
			}
			s.lower = append(s.lower, at+"/upper")
		}
	}
	return s
}

// mount mounts the lower layers.
func (s *stack) mount(target, more string) error {
	layers := slices.Clone(s.lower)
	slices.Reverse(layers)
	return unix.Mount("overlay", target, "overlay", unix.MS_NODEV|unix.MS_NOSUID, "lowerdir="+strings.Join(layers, ":")+more+",redirect_dir=off,metacopy=off,index=off")
}

// before is the image that the layers make, in the place of the whole root.
func (s *stack) before(t testing.TB) string {
	t.Helper()
	if err := unix.Unmount(s.target, 0); err != nil {
		t.Fatal(err)
	}
	target, empty := filepath.Join(s.dir, "before"), filepath.Join(s.dir, "empty")
	err := errors.Join(os.Mkdir(target, 0o755), os.Mkdir(empty, 0o755))
	if err == nil { // the kernel mounts no single layer without an upper one
		err = (&stack{lower: append([]string{empty}, s.lower...)}).mount(target, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// layer is the stack as this package reads it.
func (s *stack) layer(t testing.TB) Layer {
	t.Helper()
	open := func(dir string) *os.Root {
		r, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	l := Layer{Upper: open(filepath.Join(filepath.Dir(s.target), "upper"))}
	for _, dir := range s.lower {
		l.Lower = append(l.Lower, open(dir))
	}
	return l
}

// unmount detaches what the stack mounted.
func (s *stack) unmount(t testing.TB) {
	t.Helper()
	all, err := filepath.Glob(s.dir + "/*/merged")
	for _, target := range append(all, s.dir+"/before") {
		_ = unix.Unmount(target, unix.MNT_DETACH) // it may not be a mount point
	}
	if err = errors.Join(err, os.RemoveAll(s.dir)); err != nil {
		t.Error(err)
	}
}

// state is what a walk finds at a path.
type state struct {
	Type       sandbox.FileType
	Mode       uint32
	UID, GID   uint32
	Dev        uint64
	Content    string // or the target of a link
	Attributes string
}

// walk looks at everything below a folder.
func walk(t testing.TB, dir string) map[string]state {
	t.Helper()
	out := map[string]state{}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			if errors.Is(err, unix.ENOENT) {
				return nil // the kernel lists whiteouts in a folder that only one layer has
			}
			return err
		}
		s := state{Type: fileType(st.Mode), Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid}
		var content []byte
		switch s.Type {
		case sandbox.RegularFile:
			content, err = os.ReadFile(p)
			s.Content = string(content)
		case sandbox.Symlink:
			s.Content, err = os.Readlink(p)
		case sandbox.Device:
			s.Dev = st.Rdev
		}
		s.Attributes = attributesOf(p)
		out[p[len(dir):]] = s
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// attributesOf reads the attributes that programs can set, by path.
func attributesOf(p string) (out string) {
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(p, buf)
	if err != nil {
		return ""
	}
	names := strings.Split(string(buf[:n]), "\x00")
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, "user.") || name == "security.capability" {
			value := make([]byte, 4096)
			n, _ := unix.Lgetxattr(p, name, value)
			out += fmt.Sprintf("%s=%x ", name, value[:max(n, 0)])
		}
	}
	return out
}

// difference is what the contract says of two walks.
func difference(before, after map[string]state) (out []sandbox.Change) {
	for p, now := range after {
		switch was, ok := before[p]; {
		case !ok:
			out = append(out, sandbox.Change{Path: p, Kind: sandbox.Added, Type: now.Type})
		case was != now:
			out = append(out, sandbox.Change{Path: p, Kind: sandbox.Modified, Type: now.Type})
		}
	}
	for p := range before {
		_, there := after[p]
		if parent := after[filepath.Dir(p)]; !there && (filepath.Dir(p) == "/" || parent.Type == sandbox.Directory) {
			out = append(out, sandbox.Change{Path: p, Kind: sandbox.Deleted})
		}
	}
	slices.SortFunc(out, func(a, b sandbox.Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}
