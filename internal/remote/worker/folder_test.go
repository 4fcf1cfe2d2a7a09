package worker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"securebench/internal/remote"
)

// TestFolders: a worker that starts gets what its own former processes have left of the
// same run. It touches nothing of one that lives, and nothing but the pack's files of one
// whose run may come back; what nobody wants goes.
func TestFolders(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	begin := func(who, token string, results ...result) *folder {
		t.Helper()
		f, left, err := newFolder(t.Context(), cache, owner{who, token})
		if err != nil || len(left) > 0 {
			t.Fatal(left, err)
		}
		for _, r := range results {
			if err := f.keep(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(f.dir, evalDir), 0o700); err != nil {
			t.Fatal(err)
		}
		return f
	}
	dies := func(f *folder) *folder { // without doing anything
		if err := f.lock.Close(); err != nil {
			t.Fatal(err)
		}
		return f
	}
	done := result{Held: remote.Held{ID: "job", Nonce: "n", Grant: 2}, Value: []byte(`{"failed":null}`)}
	live := begin("a.1", "run", done)
	empty, full := begin("a.2", "run"), begin("a.3", "run", done)
	others, another := begin("b.1", "run", done), begin("a.4", "other", done)
	nothing, old := begin("b.2", "run"), begin("b.3", "run", done)
	unknown, damaged := begin("a.5", "run", done), begin("a.6", "run", done)
	long := time.Now().Add(-kept - time.Hour)
	for _, err := range []error{os.Chtimes(filepath.Join(old.dir, ownerName), long, long), os.Remove(filepath.Join(unknown.dir, ownerName)),
		os.Truncate(filepath.Join(damaged.dir, done.name()), 20)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []*folder{empty, full, others, another, nothing, old, unknown, damaged} {
		dies(f)
	}
	mine, left, err := newFolder(t.Context(), cache, owner{"a.7", "run"})
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{}
	for _, f := range left {
		dirs = append(dirs, f.dir)
		want := 1
		if f.dir != full.dir {
			want = 0
		}
		if got := f.results(); len(got) != want || want > 0 && (got[0].Held != done.Held || string(got[0].Value) != string(done.Value)) {
			t.Errorf("%s: %+v", f.Who, got)
		}
	}
	slices.Sort(dirs)
	if want := slices.Sorted(slices.Values([]string{empty.dir, full.dir, damaged.dir})); !slices.Equal(dirs, want) {
		t.Errorf("left: %q, want %q", dirs, want)
	}
	there := func(f *folder, name string) bool { _, err := os.Stat(filepath.Join(f.dir, name)); return err == nil }
	for _, f := range []*folder{live, others, another} {
		if !there(f, done.name()) || there(f, evalDir) != (f == live) {
			t.Errorf("%s of %s changed", f.Who, f.Token)
		}
	}
	for _, f := range []*folder{nothing, old, unknown} {
		if there(f, ".") {
			t.Errorf("%s was left", f.Who)
		}
	}
	for _, f := range append(left, mine, live) {
		if err := f.close(f != live); err != nil {
			t.Error(err)
		}
	}
	if !there(live, done.name()) || there(live, evalDir) || there(full, ".") {
		t.Error("a folder was closed as another")
	}
}
