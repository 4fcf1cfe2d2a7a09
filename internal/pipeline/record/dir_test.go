package record

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestTidy: folders without a file are removed, also those that hold nothing but such; the
// folder of raw output itself stays.
func TestTidy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		folders, files, want []string // below the folder of raw output and history/
	}{
		"nothing":       {},
		"all are empty": {folders: []string{"restricted/a/1", "restricted/a/2", "restricted/b", "history/1/restricted/a"}, want: []string{"restricted"}},
		"one has a file": {folders: []string{"restricted/a/1", "restricted/a/2", "restricted/b", "history/1/restricted/a"}, files: []string{"restricted/a/2/out", "history/1/run.json"},
			want: []string{"history", "history/1", "history/1/run.json", "restricted", "restricted/a", "restricted/a/2", "restricted/a/2/out"}},
		"beside files": {folders: []string{"restricted/a/z"}, files: []string{"restricted/salt", "restricted/a/out"}, want: []string{"restricted", "restricted/a", "restricted/a/out", "restricted/salt"}},
	} {
		dir := t.TempDir()
		for _, f := range tt.folders {
			if err := os.MkdirAll(filepath.Join(dir, f), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range tt.files {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&Dir{root: root}).Tidy(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		err = fs.WalkDir(root.FS(), ".", func(f string, _ fs.DirEntry, err error) error {
			if f != "." {
				got = append(got, f)
			}
			return err
		})
		if root.Close(); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}
