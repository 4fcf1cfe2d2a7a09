package contract

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"securebench/internal/sandbox"
)

// overlay makes an overlay, mounts it and removes it.
func (s *suite) overlay(t *testing.T) {
	e, ok := s.engine.(sandbox.Overlays)
	if !ok {
		t.Skip("the engine keeps no overlays")
	}
	spec := sandbox.OverlaySpec{Key: "suite-" + strings.ToLower(rand.Text()), Title: "the suite's tree, 1.0"}
	t.Cleanup(func() {
		if err := e.RemoveOverlay(context.Background(), spec.Key); err != nil {
			t.Errorf("RemoveOverlay: %v", err)
		}
	})
	s.overlayFails(t, e, spec)
	var fills atomic.Int64
	owned := plain("bin/tool", "hello\n", 0o755)
	owned.Uid, owned.Gid = 1234, 1234
	link := file{tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/link", Linkname: "tool"}, ""}
	fill := func(w io.Writer) error {
		fills.Add(1)
		_, err := io.Copy(w, archive(t, dir("bin/", 0o755), owned, link))
		return err
	}
	overlays := make([]sandbox.Overlay, 3)
	var wg sync.WaitGroup
	for i := range overlays { // at once
		wg.Go(func() {
			var err error
			if overlays[i], err = e.Overlay(t.Context(), spec, fill); err != nil {
				t.Errorf("Overlay: %v", err)
			}
		})
	}
	wg.Wait()
	if t.Failed() || fills.Load() != 1 || overlays[0].OverlayKey() != spec.Key {
		t.Fatalf("filled %d times", fills.Load())
	}
	if all, err := e.Overlays(t.Context()); err != nil || !slices.Contains(all, spec) || !slices.IsSortedFunc(all, func(a, b sandbox.OverlaySpec) int { return strings.Compare(a.Key, b.Key) }) {
		t.Errorf("Overlays: got %v and %v", all, err)
	}
	if _, err := s.engine.Reap(t.Context()); err != nil {
		t.Errorf("Reap: %v", err)
	}
	s.useOverlay(t, e, overlays[1])
}

// overlayFails checks that a tree that was not filled whole is not there, and
// what is refused.
func (s *suite) overlayFails(t *testing.T, e sandbox.Overlays, spec sandbox.OverlaySpec) {
	cause := errors.New("the source broke")
	for name, fill := range map[string]func(io.Writer) error{
		"a source that fails": func(w io.Writer) error {
			whole, _ := io.ReadAll(archive(t, plain("one", strings.Repeat("x", 5000), 0o644), plain("two", "y", 0o644)))
			_, err := w.Write(whole[:4000])
			return errors.Join(cause, err)
		},
		"a source that is cut": func(w io.Writer) error {
			whole, _ := io.ReadAll(archive(t, plain("one", strings.Repeat("x", 5000), 0o644)))
			_, err := w.Write(whole[:4000])
			return err
		},
		"no archive": func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat("x", 2000))
			return err
		},
		"a device": func(w io.Writer) error {
			_, err := io.Copy(w, archive(t, file{tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, ""}))
			return err
		},
		"a path out of it": func(w io.Writer) error {
			_, err := io.Copy(w, archive(t, plain("../out", "x", 0o644)))
			return err
		},
	} {
		o, err := e.Overlay(t.Context(), spec, fill)
		if err == nil || strings.Contains(name, "fails") && !errors.Is(err, cause) {
			t.Errorf("%s: got %v and %v", name, o, err)
		}
	}
	none := func(io.Writer) error { t.Error("it is filled"); return nil }
	for _, key := range []string{"", "A", "a/b", "-a", "a-", "a b", "ä", strings.Repeat("a", 1000)} {
		if o, err := e.Overlay(t.Context(), sandbox.OverlaySpec{Key: key}, none); err == nil {
			t.Errorf("the key %q: got %v", key, o)
		}
	}
	if all, err := e.Overlays(t.Context()); err != nil || slices.Contains(all, spec) {
		t.Errorf("Overlays: got %v and %v", all, err)
	}
}

// useOverlay mounts an overlay, and removes it as soon as that is possible.
func (s *suite) useOverlay(t *testing.T, e sandbox.Overlays, o sandbox.Overlay) {
	spec := s.spec(scriptOverlay)
	spec.Mounts = []sandbox.Mount{{Overlay: o, Target: "/opt/suite/tool", ReadOnly: true}}
	spec.User = &sandbox.User{}
	b := s.open(t, spec)
	if err := e.RemoveOverlay(t.Context(), o.OverlayKey()); err == nil {
		t.Error("an overlay was removed that a sandbox uses")
	}
	var out strings.Builder
	if got, err := b.Run(t.Context(), sandbox.Streams{Stdout: &out}); err != nil || got.ExitCode != 0 || out.String() != "hello\n" {
		t.Errorf("Run: got %+v, %v and %q", got, err, out.String())
	}
	t.Run("isolation", func(t *testing.T) {
		if !s.caps.Isolation {
			t.Skip("the engine confines nothing")
		}
		spec := s.spec("stat -c '%u:%g %a %F' /opt/suite/tool/bin /opt/suite/tool/bin/tool; ls -A /opt/suite/tool")
		spec.Mounts = []sandbox.Mount{{Overlay: o, Target: "/opt/suite/tool", ReadOnly: true}}
		if got := s.run(t, spec); got.stdout != "0:0 755 directory\n0:0 755 regular file\nbin\n" {
			t.Errorf("got %q, %q", got.stdout, got.stderr)
		}
		const lock = "import fcntl, time\nf = open('/opt/suite/tool/bin/tool')\nfcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint('locked', flush=True)\n"
		holds, tries := s.python(lock+"time.sleep(600)"), s.python(lock)
		holds.Mounts, tries.Mounts = spec.Mounts, spec.Mounts
		s.beside(t, holds, func() {
			if got := s.run(t, tries); got.stdout != "locked\n" {
				t.Errorf("a lock on a file of an overlay shows in another sandbox: %q, %q", got.stdout, got.stderr)
			}
		})
	})
	spec.Mounts[0].ReadOnly = false
	s.notOpened(t, spec, "an overlay was mounted writable")
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := e.RemoveOverlay(t.Context(), o.OverlayKey()); err != nil { // the end of the test does it again
		t.Errorf("RemoveOverlay: %v", err)
	}
}

// home checks that a box has an empty folder of its user's.
func (s *suite) home(t *testing.T) {
	for range 2 { // nothing of the first is in the second
		spec := s.spec(scriptHome)
		spec.Home = "/opt/suite/home"
		if got := s.run(t, spec); got.stdout != "hello\n" || got.ExitCode != 0 {
			t.Errorf("got %+v, %q, %q", got.Outcome, got.stdout, got.stderr)
		}
	}
	if s.caps.Isolation {
		spec := s.spec("stat -c '%u:%g %a' /opt/suite/home; head -c 100000000 /dev/zero > /opt/suite/home/big || echo full; touch /opt/suite/x /opt/x || echo closed")
		spec.Home = "/opt/suite/home"
		if got := s.run(t, spec); got.stdout != "65534:65534 700\nfull\nclosed\n" {
			t.Errorf("got %+v, %q, %q", got.Outcome, got.stdout, got.stderr)
		}
	}
	for home, target := range map[string]string{"/": "/w", "home": "/w", "/proc/x": "/w", "/w": "/w", "/w/home": "/w", "/home": "/home/w"} {
		spec := s.spec(scriptOK)
		w, err := s.engine.Workspace(t.Context(), sandbox.WorkspaceSpec{Disk: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		spec.Mounts, spec.Home = []sandbox.Mount{{Workspace: w, Target: target}}, home
		s.notOpened(t, spec, fmt.Sprintf("a box has the home %q and a workspace at %q", home, target))
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
