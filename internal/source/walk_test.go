package source_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/source"
)

// TestWalkDir: a walk visits what the standard library's does, in its order, and is
// steered by the same errors. A link to a folder is not followed.
func TestWalkDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a/1/x", "a/1/y", "a/2/x", "b", "empty/", "z/deep/er/file"} {
		at := filepath.Join(dir, name)
		if name[len(name)-1] == '/' {
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	fsys := source.FS(root)
	for _, top := range []string{".", "a", "b", "missing", "a/1/x"} {
		for _, stop := range []string{"", "a", "a/1", "a/1/x", "z/deep", "missing"} {
			for _, with := range []error{nil, fs.SkipDir, fs.SkipAll, fs.ErrClosed} {
				walk := func(walk func(fs.FS, string, fs.WalkDirFunc) error) (seen []string) {
					err := walk(fsys, top, func(name string, e fs.DirEntry, err error) error {
						seen = append(seen, fmt.Sprint(name, " ", e != nil && e.IsDir(), " ", err != nil))
						if name == stop {
							return with
						}
						return nil
					})
					return append(seen, fmt.Sprint(err))
				}
				if want, got := walk(fs.WalkDir), walk(source.WalkDir); !slices.Equal(got, want) {
					t.Errorf("%s, %v at %q:\ngot  %q\nwant %q", top, with, stop, got, want)
				}
			}
		}
	}
	if err := source.WalkDir(fsys, "link", func(name string, e fs.DirEntry, err error) error {
		if name != "link" || e.IsDir() {
			t.Errorf("a link was followed to %q", name)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestWalkDirDeep: folders that are nested for ever end with an error.
func TestWalkDirDeep(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at, err := root.OpenRoot(".")
	for range 30 {
		if err == nil {
			err = at.Mkdir(strings.Repeat("x", 200), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		above := at
		at, err = above.OpenRoot(strings.Repeat("x", 200))
		above.Close()
	}
	at.Close()
	err = source.WalkDir(source.FS(root), ".", func(_ string, _ fs.DirEntry, err error) error { return err })
	if !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("%v", err)
	}
}

// TestWalkDirClosed: a folder that cannot be read is told, as the standard library does.
func TestWalkDirClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "gone", "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var seen []string
	err = source.WalkDir(source.FS(root), ".", func(name string, _ fs.DirEntry, err error) error {
		seen = append(seen, fmt.Sprint(name, " ", err != nil))
		if name == "gone" && err == nil {
			return os.RemoveAll(filepath.Join(dir, "gone"))
		}
		return nil
	})
	if want := []string{". false", "gone false", "gone true"}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("%q, %v, want %q", seen, err, want)
	}
}
