package merge

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCopied merges shards that lie on another file system than the candidates and the
// history of the run, to where files cannot be linked or renamed: they are copied, and the
// run is as it would be.
func TestCopied(t *testing.T) {
	t.Parallel()
	whole := shards(t)
	want := whole.merged()
	k := newKit(t, 12, 2, 3)
	for _, sub := range []string{"candidates", "history"} {
		dir := filepath.Join(k.dir, sub)
		k.check(os.MkdirAll(dir, 0o755))
		err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m,mode=755")
		if errors.Is(err, unix.EPERM) {
			t.Skip("only root may mount another file system")
		}
		k.check(err)
		t.Cleanup(func() { k.check(unix.Unmount(dir, unix.MNT_DETACH)) })
	}
	k.start(0).all("first").end()
	k.start(1).all("zombie").end()
	k.start(1).all("second").end()
	k.start(2).all("third").end()
	from := filepath.Join(k.dir, "shards", "0.1", "candidates")
	if err := os.Link(filepath.Join(from, names(t, from)[0]), filepath.Join(k.dir, "candidates", "x")); !errors.Is(err, unix.EXDEV) {
		t.Fatalf("it is the same file system: %v", err)
	}
	res := k.merged()
	if !reflect.DeepEqual(res.Summary, want.Summary) {
		t.Errorf("%+v, want %+v", res.Summary, want.Summary)
	}
	if got := k.said(true); !slices.Equal(got, whole.said(true)) {
		t.Errorf("%q", got)
	}
	for _, sub := range []string{"candidates", "restricted/task_3/2"} {
		if is, want := names(t, filepath.Join(k.dir, sub)), names(t, filepath.Join(whole.dir, sub)); !slices.Equal(is, want) {
			t.Errorf("%s: %q, want %q", sub, is, want)
		}
	}
	is, wants := kept(t, k), kept(t, whole)
	if !slices.Equal(is, wants) {
		t.Errorf("kept %q, want %q", is, wants)
	}
}

// kept lists what a merge has put aside.
func kept(t *testing.T, k *kit) (out []string) {
	t.Helper()
	history := filepath.Join(k.dir, "history")
	all, err := filepath.Glob(filepath.Join(history, "*", "shards", "*", "*"))
	k.check(err)
	for _, name := range all {
		_, own, _ := strings.Cut(strings.TrimPrefix(name, history+"/"), "/")
		out = append(out, own)
	}
	return out
}

// names lists a folder.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}
