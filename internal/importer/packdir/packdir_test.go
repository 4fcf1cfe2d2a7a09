package packdir

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// filesIn lists the files and links below a folder, and its empty folders.
func filesIn(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		entries, _ := os.ReadDir(filepath.Join(dir, name)) // of a file there are none
		if err == nil && (!d.IsDir() || len(entries) == 0) {
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFormerImport: of a former import nothing is left where a new one writes,
// but a folder that holds anything else keeps it.
func TestFormerImport(t *testing.T) {
	for name, tt := range map[string]struct {
		manifest string
		gone     bool
	}{"an import": {Mark + "x data set\n", true}, "a pack of one's own": {"id: p\n", false}, "none": {"", false}} {
		dir, outside := t.TempDir(), t.TempDir()
		old := map[string]string{"manifest.yaml": tt.manifest, "notes": "", "images/a/Dockerfile": "old", "images/a/solution.sh": "", "images/b/deep/x": "",
			"mine/x": ""}
		for name, text := range old {
			full := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(dir, "images/link")); err != nil {
			t.Fatal(err)
		}
		s, err := New(dir, true, "manifest.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put("images/a/Dockerfile", "new"); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		s.Discard()
		want := []string{"images/a/Dockerfile", "images/a/solution.sh", "images/b/deep/x", "images/link", "manifest.yaml", "mine/x", "notes"}
		if tt.gone {
			want = []string{"images/a/Dockerfile", "manifest.yaml", "mine/x", "notes"}
		}
		if got := filesIn(t, dir); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
		if got := filesIn(t, outside); !slices.Equal(got, []string{"kept"}) {
			t.Errorf("%s: outside is %q", name, got)
		}
	}
}

// TestManyFiles: whole files take no descriptors, so that a pack can have any number of them.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	set, err := New(dir, false, "tasks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer set.Discard()
	before := open()
	for i := range 50 {
		if err := set.Put(strconv.Itoa(i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if now := open(); now > before+10 { // others may have some
		t.Errorf("%d files are open, and were %d", now, before)
	}
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := filesIn(t, dir); len(got) != 51 {
		t.Errorf("files %q", got)
	}
}
