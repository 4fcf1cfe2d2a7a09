package holder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/sandbox"
)

// TestRemoveThroughLinks: what a link leads to stays, whether the link is the
// path, a part of it, or below what is removed.
func TestRemoveThroughLinks(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "victim"), "untouched")
	write(t, filepath.Join(root, "own/file"), "x")
	for link, target := range map[string]string{"dir": outside, "file": filepath.Join(outside, "victim"), "up": "..",
		"inside": "own", "own/out": outside} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	// The naive way follows them.
	weak, err := os.Open(filepath.Join(root, "dir/victim"))
	if err != nil {
		t.Fatalf("the attack does not work: %v", err)
	}
	_ = weak.Close()
	c := start(t, root)
	if err := c.Remove(t.Context(), "dir/victim", "inside/file", "up/"+filepath.Base(root)+"/own"); err != nil {
		t.Fatal(err)
	}
	want := []string{"2 dir " + outside, "2 file " + filepath.Join(outside, "victim"), "2 inside own", "5 own/ ",
		"0 own/file ", "2 own/out " + outside, "2 up .."}
	if d := cmp.Diff(want, list(t, c, ".")); d != "" {
		t.Errorf("tree (-want +got):\n%s", d)
	}
	if err := c.Remove(t.Context(), "own", "dir", "file", "inside", "up"); err != nil {
		t.Fatal(err)
	}
	if got := list(t, c, "."); got != nil {
		t.Errorf("left: %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(outside, "victim")); err != nil || string(b) != "untouched" {
		t.Errorf("outside the tree: %q, %v", b, err)
	}
}

func TestRemoveIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		write(t, filepath.Join(dir, "many", fmt.Sprint(i)), "")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := (&remover{left: 50}).path(root, "many"); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("one more than the bound: got %v, want ErrTooLarge", err)
	}
	write(t, filepath.Join(dir, "many/more"), "")
	if err := (&remover{left: 2}).path(root, "many"); err != nil {
		t.Errorf("as many as the bound: got %v", err)
	}
	c := start(t, dir)
	if err := c.Remove(t.Context(), strings.Repeat("x", maxPaths)); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("too many paths: got %v, want ErrTooLarge", err)
	}
	deep := strings.Repeat("d/", MaxDepth-1) + "d"
	if err := os.MkdirAll(filepath.Join(dir, deep), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context(), "d"); err != nil {
		t.Errorf("the deepest tree: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, deep, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context(), "d"); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("a deeper tree: got %v, want ErrTooLarge", err)
	}
	if got := list(t, c, "nothing"); got != nil {
		t.Errorf("afterwards: %q", got)
	}
}

// FuzzRemove checks that no list of paths reaches beyond the tree.
func FuzzRemove(f *testing.F) {
	f.Add([]byte("a/b\x00link/x\x00"))
	f.Add([]byte("../victim\x00"))
	f.Add([]byte("a/./b"))
	f.Fuzz(func(t *testing.T, in []byte) {
		around := t.TempDir()
		dir := filepath.Join(around, "root")
		write(t, filepath.Join(dir, "a/b"), "x")
		write(t, filepath.Join(around, "victim"), "x")
		if err := os.Symlink("..", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_ = remove(root, strings.NewReader(string(in)))
		for _, path := range []string{dir, filepath.Join(around, "victim")} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%q removed %s", in, path)
			}
		}
	})
}
