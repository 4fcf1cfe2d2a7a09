package upper

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"securebench/internal/sandbox"
)

// act does something random in a tree, as a sandbox could. What the kernel refuses
// is left undone.
func act(t *rapid.T, root string) {
	names := rapid.SampledFrom([]string{"a", "b", "c", "d", ".wh.a", ".wh..wh..opq", "a b"})
	pathOf := func(label string) string {
		return filepath.Join(root, strings.Join(rapid.SliceOfN(names, 1, 3).Draw(t, label), "/"))
	}
	p := pathOf("path")
	content := rapid.SampledFrom([]string{"", "x", "y", "xx"}).Draw(t, "content")
	number := rapid.IntRange(0, 3).Draw(t, "number")
	mode := []uint32{0o755, 0o644, 0o4755, 0o000}[number]
	_ = map[string]func() error{
		"write":    func() error { return write(p, content, os.O_CREATE|os.O_TRUNC) },
		"append":   func() error { return write(p, content, os.O_APPEND) },
		"open":     func() error { return write(p, "", 0) }, // copied up without a difference
		"mkdir":    func() error { return os.MkdirAll(p, 0o755) },
		"remove":   func() error { return remove(p) },
		"empty":    func() error { return errors.Join(remove(p), os.Mkdir(p, 0o755)) },
		"symlink":  func() error { return os.Symlink(content, p) },
		"link":     func() error { return os.Link(p, pathOf("to")) },
		"rename":   func() error { return os.Rename(p, pathOf("to")) },
		"exchange": func() error { return unix.Renameat2(-1, p, -1, pathOf("to"), unix.RENAME_EXCHANGE) },
		"white":    func() error { return unix.Renameat2(-1, p, -1, pathOf("to"), unix.RENAME_WHITEOUT) },
		"fifo":     func() error { return unix.Mkfifo(p, 0o600) },
		"device":   func() error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, uint32(3+2*(number%2))))) },
		"whiteout": func() error { return unix.Mknod(p, unix.S_IFCHR|0o600, 0) },
		"chmod":    func() error { return unix.Fchmodat(-100, p, mode, 0) },
		"chown":    func() error { return os.Lchown(p, number, number) },
		"touch":    func() error { return unix.Utimes(p, []unix.Timeval{{Sec: 1}, {Sec: int64(number)}}) },
		"attribute": func() error {
			return unix.Lsetxattr(p, []string{"user.a", "user.overlay.opaque", "trusted.overlay.opaque", "user.overlay.whiteout"}[number], []byte("y"), 0)
		},
		"plain": func() error { return unix.Lremovexattr(p, "user.a") },
	}[rapid.SampledFrom([]string{"write", "append", "open", "mkdir", "remove", "empty", "symlink", "link", "rename", "exchange", "white",
		"fifo", "device", "whiteout", "chmod", "chown", "touch", "attribute", "plain"}).Draw(t, "act")]()
}

// write never waits for the reader of a pipe.
func write(p, content string, flags int) error {
	f, err := os.OpenFile(p, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Close())
}

// remove never opens a pipe in the place of the folder above, as its twin in os does.
func remove(p string) error {
	if above, err := os.Lstat(filepath.Dir(p)); err != nil || !above.IsDir() {
		return err
	}
	return os.RemoveAll(p)
}

// TestLayerAgreesWithWalk: what the upper layer says of a random tree after random
// operations is what a walk of the whole root and of the image finds, and the
// archive of the root is the root.
func TestLayerAgreesWithWalk(t *testing.T) {
	inNamespace(t, func(t *testing.T, dir string) {
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			s := newStack(t, fmt.Sprintf("%s/%d", dir, run), rapid.IntRange(1, 3).Draw(rt, "layers"), func(int) bool { return rapid.Bool().Draw(rt, "mounted") }, func(_ int, root string) {
				for range rapid.IntRange(0, 12).Draw(rt, "acts") {
					act(rt, root)
				}
			})
			defer s.unmount(t)
			after, l := walk(t, s.target), s.layer(t)
			got, err := l.Changes(t.Context(), 1000)
			if err != nil {
				rt.Fatal(err)
			}
			if d := cmp.Diff(difference(walk(t, s.before(t)), after), got); d != "" {
				rt.Errorf("changes (-walk +upper layer):\n%s", d)
			}
			var archive bytes.Buffer
			if err := l.Archive(t.Context(), []string{"/"}, 1<<20, &archive); err != nil {
				rt.Fatal(err)
			}
			for p, s := range after { // neither is in an archive
				if s.Attributes = ""; s.Type == sandbox.Socket {
					delete(after, p)
					continue
				}
				after[p] = s
			}
			if d := cmp.Diff(after, unpacked(t, &archive)); d != "" {
				rt.Errorf("the root (-walk +archive):\n%s", d)
			}
		})
	})
}

// TestFolderOverFile: a file between two folders of one name ends what is merged,
// in layers that no kernel has marked.
func TestFolderOverFile(t *testing.T) {
	inNamespace(t, func(t *testing.T, dir string) {
		s := newStack(t, dir+"/s", 3, func(int) bool { return false }, func(n int, root string) {
			at := root + "/d"
			switch n {
			case 0:
				must(t, os.Mkdir(at, 0o755), write(at+"/below", "x", os.O_CREATE))
			case 1:
				must(t, write(at, "a file", os.O_CREATE))
			case 2:
				must(t, os.Mkdir(at, 0o755), write(at+"/above", "x", os.O_CREATE))
			default:
				must(t, write(at+"/new", "x", os.O_CREATE), os.Remove(at+"/above"))
			}
		})
		defer s.unmount(t)
		after, l := walk(t, s.target), s.layer(t)
		got, err := l.Changes(t.Context(), 10)
		must(t, err)
		if d := cmp.Diff(difference(walk(t, s.before(t)), after), got); d != "" {
			t.Errorf("changes (-walk +upper layer):\n%s", d)
		}
		var archive bytes.Buffer
		must(t, l.Archive(t.Context(), []string{"/d"}, 1<<20, &archive))
		if d := cmp.Diff(after, unpacked(t, &archive)); d != "" {
			t.Errorf("the root (-walk +archive):\n%s", d)
		}
	})
}

// unpacked describes an archive as a walk does.
func unpacked(t testing.TB, r io.Reader) map[string]state {
	t.Helper()
	out := map[string]state{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		s := state{Mode: uint32(h.Mode), UID: uint32(h.Uid), GID: uint32(h.Gid), Content: string(content) + h.Linkname}
		switch h.Typeflag {
		case tar.TypeLink:
			s = out["/"+h.Linkname]
		case tar.TypeReg:
			s.Type = sandbox.RegularFile
		case tar.TypeDir:
			s.Type = sandbox.Directory
		case tar.TypeSymlink:
			s.Type = sandbox.Symlink
		case tar.TypeFifo:
			s.Type = sandbox.NamedPipe
		default:
			s.Type, s.Dev = sandbox.Device, unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))
		}
		p := "/" + strings.TrimSuffix(h.Name, "/")
		if _, twice := out[p]; twice {
			t.Errorf("%s is in the archive twice", p)
		}
		out[p] = s
	}
}
