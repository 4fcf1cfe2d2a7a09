package workspace_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"securebench/internal/digest"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// TestChangedAssets: an asset that is not what it was when the pack was loaded
// is noticed before an agent sees it, whatever happened to it.
func TestChangedAssets(t *testing.T) {
	tests := map[string]struct {
		change func(dir string) error
		want   error
	}{
		"nothing":     {func(string) error { return nil }, nil},
		"content":     {func(dir string) error { return os.WriteFile(filepath.Join(dir, "d/a.txt"), []byte("EVIL"), 0o644) }, workspace.ErrChanged},
		"a new file":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "d/b.txt"), []byte("more"), 0o644) }, workspace.ErrChanged},
		"a file gone": {func(dir string) error { return os.Remove(filepath.Join(dir, "d/c.txt")) }, workspace.ErrChanged},
		"all of it":   {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "d")) }, workspace.ErrChanged},
		"grown": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "d/a.txt"), []byte("one and more"), 0o644)
		}, workspace.ErrChanged},
		"a terabyte": {func(dir string) error { return os.Truncate(filepath.Join(dir, "d/a.txt"), 1<<40) }, workspace.ErrChanged},
		"a link": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "d/a.txt")), os.Symlink("c.txt", filepath.Join(dir, "d/a.txt")))
		}, workspace.ErrChanged},
		"a pipe": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "d/a.txt")), syscall.Mkfifo(filepath.Join(dir, "d/a.txt"), 0o644))
		}, workspace.ErrChanged},
		"a folder": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "d/a.txt")), os.Mkdir(filepath.Join(dir, "d/a.txt"), 0o755))
		}, workspace.ErrChanged},
		"its other name": {func(dir string) error { // a hard link from outside of the pack
			outside := filepath.Join(t.TempDir(), "outside")
			return errors.Join(os.Link(filepath.Join(dir, "d/a.txt"), outside), os.WriteFile(outside, []byte("EVI"), 0o644))
		}, workspace.ErrChanged},
		"same content":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "d/a.txt"), []byte("one"), 0o644) }, nil},
		"another asset": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o644) }, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
				t.Fatal(err)
			}
			expect := map[string]string{}
			for file, text := range map[string]string{"d/a.txt": "one", "d/c.txt": "two"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				expect[file] = digest.Bytes([]byte(text))
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			tk, err := task.New(task.Config{ID: "t", Family: "short_answer", Pack: task.Pack{ID: "p"},
				Assets: []task.Asset{{Path: "d", Mount: "data"}}})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := workspace.ForAgent(tk.Agent(), workspace.Options{Assets: root, Expect: expect})
			if err != nil {
				t.Fatal(err)
			}
			if err := plan.WriteTar(io.Discard, 0, 0); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}
