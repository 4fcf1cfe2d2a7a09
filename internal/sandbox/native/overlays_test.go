package native

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/sandbox"
	"securebench/internal/tartest"
)

var spec = sandbox.OverlaySpec{Key: "tool-1.0", Title: "tool 1.0"}

func testStore(t testing.TB, dir string) *overlayStore {
	t.Helper()
	s, err := openOverlays(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.flush = func(*os.File) error { return nil } // it can take seconds on a busy disk
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func tool(t testing.TB, content string) []byte {
	return tartest.Pack(t, tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeReg, Name: "bin/tool", Linkname: content, Mode: 0o6777, Uid: 1000},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/link", Linkname: "tool"}, tar.Header{Typeflag: tar.TypeLink, Name: "again", Linkname: "bin/tool", Mode: 0o755})
}

func filling(b []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}

// never is for an overlay that is there.
func never(io.Writer) error { return errors.New("it is filled again") }

// leftovers lists what is unfinished.
func leftovers(t testing.TB, s *overlayStore) int {
	t.Helper()
	all, err := fs.ReadDir(s.root.FS(), unfinishedDir)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestOverlayIsFilledOnce(t *testing.T) {
	dir := t.TempDir()
	var fills atomic.Int64
	var wg sync.WaitGroup
	for range 4 { // like four processes at once
		s := testStore(t, dir)
		wg.Go(func() {
			if o, err := s.Overlay(t.Context(), spec, func(w io.Writer) error { fills.Add(1); return filling(tool(t, "x"))(w) }); err != nil || o.OverlayKey() != spec.Key {
				t.Errorf("Overlay: %v, %v", o, err)
			}
		})
	}
	wg.Wait()
	s := testStore(t, dir)
	o, err := s.Overlay(t.Context(), spec, never)
	if err != nil || fills.Load() != 1 {
		t.Fatalf("%d fills, %v", fills.Load(), err)
	}
	at, release, err := s.keep(o)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(at, "bin", "tool"))
	if err != nil || info.Mode() != 0o755 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		t.Errorf("the tool: %v, %v", info, err)
	}
	if b, err := os.ReadFile(filepath.Join(at, "again")); err != nil || string(b) != "x" {
		t.Errorf("its other name: %q, %v", b, err)
	}
	if all, err := s.Overlays(t.Context()); err != nil || !cmp.Equal(all, []sandbox.OverlaySpec{spec}) {
		t.Errorf("Overlays: %v, %v", all, err)
	}
	other := testStore(t, dir)
	if err := other.RemoveOverlay(t.Context(), spec.Key); err == nil || !strings.Contains(err.Error(), "a sandbox uses it") {
		t.Errorf("an overlay in use: %v", err)
	}
	if err := errors.Join(release(), release(), other.RemoveOverlay(t.Context(), spec.Key), other.RemoveOverlay(t.Context(), spec.Key)); err != nil {
		t.Error(err)
	}
	if _, _, err := s.keep(o); err == nil {
		t.Error("an overlay is used that was removed")
	}
	if _, err := other.Overlay(t.Context(), spec, filling(tool(t, "y"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.keep(o); err == nil {
		t.Error("another overlay is used in the place of one that was removed")
	}
	if _, _, err := other.keep(o); err == nil {
		t.Error("another store's overlay is used")
	}
}

// TestRefusedTrees: nothing leaves the tree, and nothing of a refused one stays.
func TestRefusedTrees(t *testing.T) {
	top := t.TempDir()
	s := testStore(t, filepath.Join(top, "overlays"))
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: "x", Mode: 0o644}
	}
	cause := errors.New("the source broke")
	for name, fill := range map[string]func(io.Writer) error{
		"up":              filling(tartest.Pack(t, file("../out"))),
		"absolute":        filling(tartest.Pack(t, file("/out"))),
		"device":          filling(tartest.Pack(t, tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3})),
		"pipe":            filling(tartest.Pack(t, tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"})),
		"hard link out":   filling(tartest.Pack(t, tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "../../../../secret"})),
		"hard link to no": filling(tartest.Pack(t, tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "missing"})),
		"mark":            filling(tartest.Pack(t, file("bin/.wh.x"))),
		"opaque":          filling(tartest.Pack(t, file(".wh..wh..opq"))),
		"cut":             filling(tool(t, strings.Repeat("x", 4000))[:2000]),
		"no archive":      filling([]byte(strings.Repeat("x", 2000))),
		"broken":          func(w io.Writer) error { _, _ = w.Write(tool(t, "x")); return cause },
	} {
		if o, err := s.Overlay(t.Context(), spec, fill); err == nil {
			t.Errorf("%s: got %v", name, o)
		} else if name == "broken" && !errors.Is(err, cause) {
			t.Errorf("%s: got %v", name, err)
		}
		if n := leftovers(t, s); n > 0 {
			t.Errorf("%s: %d leftovers", name, n)
		}
	}
	// A link that leads out, and a file through it: into a tree that is written by
	// paths, where that changes what is outside, and into ours.
	through := tartest.Pack(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: top}, file("l/out"))
	weak := filepath.Join(top, "weak")
	if err := errors.Join(os.Mkdir(weak, 0o755), os.Symlink(top, weak+"/l"), os.WriteFile(weak+"/l/out", nil, 0o644), os.Remove(top+"/out")); err != nil {
		t.Errorf("the attack fails where paths are followed: %v", err)
	}
	_, _ = s.Overlay(t.Context(), spec, filling(through)) // whether it is refused does not matter
	if _, err := os.Lstat(filepath.Join(top, "out")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was written through a link: %v", err)
	}
}

// TestChangedContent: an overlay whose files were changed is not used.
func TestChangedContent(t *testing.T) {
	dir := t.TempDir()
	if _, err := testStore(t, dir).Overlay(t.Context(), spec, filling(tool(t, "x"))); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, keysDir, spec.Key, filesDir, "bin", "tool")
	for what, change := range map[string]func() error{
		"content": func() error { return os.WriteFile(name, []byte("evil"), 0o755) }, "mode": func() error { return os.Chmod(name, 0o644) },
		"missing": func() error { return os.Remove(name) }, "more": func() error { return os.WriteFile(name+"2", nil, 0o644) },
	} {
		if _, err := testStore(t, dir).Overlay(t.Context(), spec, never); err != nil {
			t.Fatalf("the twin without a change: %v", err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := testStore(t, dir).Overlay(t.Context(), spec, filling(tool(t, "x"))); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if b, _ := os.ReadFile(name); err != nil || string(b) != "x" || info.Mode() != 0o755 {
			t.Errorf("%s: it is used as it is: %q, %v", what, b, err)
		}
	}
}

// TestKilledFiller: what a killed process filled is no overlay, and goes.
func TestKilledFiller(t *testing.T) {
	if dir := os.Getenv("OVERLAYS_FILL"); dir != "" {
		s := testStore(t, dir)
		_, _ = s.Overlay(context.Background(), spec, func(w io.Writer) error {
			_, _ = w.Write(tool(t, strings.Repeat("x", 10_000))[:4096])
			_, _ = os.Stdout.WriteString("filling\n")
			time.Sleep(time.Hour) // until it is killed
			return nil
		})
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledFiller$")
	cmd.Env = append(os.Environ(), "OVERLAYS_FILL="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 8)); err != nil {
		t.Error(err)
	}
	s := testStore(t, dir)
	if n, err := s.reapOverlays(); n != 0 || err != nil || leftovers(t, s) != 1 {
		t.Errorf("while it fills: %d reaped, %v", n, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if all, err := s.Overlays(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("Overlays: %v, %v", all, err)
	}
	if _, err := s.Overlay(t.Context(), spec, filling(tool(t, "x"))); err != nil || leftovers(t, s) != 0 {
		t.Errorf("after a killed one: %v, %d leftovers", err, leftovers(t, s))
	}
}

// FuzzFill: no archive writes outside of the folder, or leaves something unfinished.
func FuzzFill(f *testing.F) {
	f.Add(tool(f, "x"))
	f.Add(tartest.Pack(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "../.."}, tar.Header{Typeflag: tar.TypeReg, Name: "l/x"}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		top := t.TempDir()
		s := testStore(t, filepath.Join(top, "overlays"))
		_, err := s.Overlay(t.Context(), spec, filling(archive))
		all, listErr := s.Overlays(t.Context())
		names, dirErr := os.ReadDir(top)
		if listErr != nil || dirErr != nil || (err == nil) != (len(all) == 1) || len(names) != 1 || leftovers(t, s) != 0 {
			t.Errorf("%v: %v, %v, %v", err, all, names, errors.Join(listErr, dirErr))
		}
	})
}
