package initproc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// linked is a tree of links.
func linked(t testing.TB, links map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, target := range links {
		at := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.Symlink(target, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestDestination: links are followed as a program of the tree would, the image's
// own among them, which by their words lead to an ordinary path.
func TestDestination(t *testing.T) {
	dir := linked(t, map[string]string{
		"app/plain": "dir/file", "app/up": "../srv/x", "app/away": "/srv/x",
		"srv/host": "/", "srv/opt": "../opt", "srv/above": "/app/..", "srv/fds": "/proc/self/fd", "srv/devices": "../dev",
		"app/root": "/srv/host/opt/evaluator/x", "app/opt": "/srv/opt/evaluator", "app/above": "/srv/above", "app/fd": "/srv/fds/0",
		"app/zero": "../srv/devices/zero", "app/chain": "opt", "app/through": "chain/y",
		"app/loop": "loop", "app/one": "two", "app/two": "one", "app/grows": "grows/x", "app/.keep": "x",
		"proc/self": "/app",
	})
	if err := os.WriteFile(filepath.Join(dir, "srv", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"/": "/", "/app": "/app", "/app/plain": "/app/dir/file", "/app/up": "/srv/x", "/app/away": "/srv/x", "/app/none/x": "/app/none/x",
		"/app/root": "/opt/evaluator/x", "/app/opt": "/opt/evaluator", "/app/above": "/", "/app/fd": "/proc", "/app/zero": "/dev",
		"/app/chain": "/opt/evaluator", "/app/through": "/opt/evaluator/y", "/srv/host/srv/host/app": "/app",
		"/app/loop": "/app/loop", "/app/one": "/app/one", "/app/grows": "", "/proc/self": "/proc", "/../../srv/opt": "/opt",
		"/srv/file/x": "/srv/file/x", "relative": "", "/app/" + strings.Repeat("n/", 2500): "", "/app/" + strings.Repeat("n", 300): "",
	} {
		for _, root := range []string{dir, dir + "/"} {
			if got := newFollower(root).Destination(p); got != want {
				t.Errorf("%.100s leads to %.100q, want %q", p, got, want)
			}
		}
	}
}

// TestFollowedFar: a chain that is longer than the kernel's limit, which programs
// may follow all the same, is followed; one without an end is not.
func TestFollowedFar(t *testing.T) {
	links := map[string]string{}
	for i := range 300 {
		links[fmt.Sprintf("c%d", i)] = fmt.Sprintf("c%d", i+1)
	}
	f := newFollower(linked(t, links))
	if got := f.Destination("/c200"); got != "/c300" {
		t.Errorf("100 links lead to %q", got)
	}
	if got := f.Destination("/c0"); got != "" {
		t.Errorf("300 links lead to %q", got)
	}
	f.looks = 3
	if got := f.Destination("/c290"); got != "" {
		t.Errorf("beyond all bounds: %q", got)
	}
}

// FuzzDestination checks that a destination has no link in it, so that a second
// look finds the same.
func FuzzDestination(f *testing.F) {
	f.Add("a/b", "../c", "c", "/a")
	f.Add("a", "b", "b", "a/../c")
	f.Fuzz(func(t *testing.T, name1, target1, name2, target2 string) {
		dir := t.TempDir()
		for name, target := range map[string]string{name1: target1, name2: target2} {
			if at := filepath.Join(dir, filepath.Join("/", name)); filepath.IsLocal(name) && os.MkdirAll(filepath.Dir(at), 0o700) == nil {
				_ = os.Symlink(target, at)
			}
		}
		for _, name := range []string{name1, name2} {
			first := newFollower(dir).Destination("/" + name)
			if second := newFollower(dir).Destination(first); first != "" && second != first {
				t.Errorf("%q leads to %q, and that to %q", name, first, second)
			}
		}
	})
}

// TestLook: of where nothing is, the folder in which it would be made is known.
func TestLook(t *testing.T) {
	dir := linked(t, map[string]string{"app/link": "/tmp/x/y", "app/file/.keep": "x", "tmp/.keep": "x"})
	for name, mode := range map[string]os.FileMode{"app": 0o750, "tmp": 0o777} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "app", "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	f := newFollower(dir)
	for p, want := range map[string]Place{
		"/app/link":    {Path: "/tmp/x/y", Missing: true, UID: uid, GID: gid, Mode: 0o777},
		"/tmp":         {Path: "/tmp", Folder: true, UID: uid, GID: gid, Mode: 0o777},
		"/app/none":    {Path: "/app/none", Missing: true, UID: uid, GID: gid, Mode: 0o750},
		"/app/plain":   {Path: "/app/plain", UID: uid, GID: gid, Mode: 0o600},
		"/app/plain/x": {Path: "/app/plain/x", Missing: true, UID: uid, GID: gid},
	} {
		if got := f.Look(p); got != want {
			t.Errorf("%s: %+v, want %+v", p, got, want)
		}
	}
	p := Place{UID: 1, GID: 1, Mode: 0o720}
	if !p.Writable(1, 2) || !p.Writable(2, 1) || p.Writable(2, 2) {
		t.Error("it does not tell who may write")
	}
}
