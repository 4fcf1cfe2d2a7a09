package layer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// TestAnyLayer: layers of names and links that were chosen to collide and to lead
// out. Nothing outside is made or changed, what fails is the layer's fault, and the
// folder can be removed.
func TestAnyLayer(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{"a", "b", "c", ".wh.a", ".wh.b", ".wh..wh..opq", "..", ".", ""})
	kind := rapid.SampledFrom([]byte{tar.TypeReg, tar.TypeDir, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeChar})
	target := rapid.SampledFrom([]string{"a", "b", "a/b", "..", "../..", "/", "/a", "../victim", "c/../../victim", "b/victim"})
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for range rapid.IntRange(1, 12).Draw(t, "entries") {
			name := part.Draw(t, "1")
			for range rapid.IntRange(0, 2).Draw(t, "depth") {
				name += "/" + part.Draw(t, "2")
			}
			h := &tar.Header{Typeflag: kind.Draw(t, "kind"), Name: name, Mode: 0o755, Linkname: target.Draw(t, "target")}
			if h.Typeflag != tar.TypeSymlink && h.Typeflag != tar.TypeLink {
				h.Linkname = ""
			}
			if err := w.WriteHeader(h); err != nil {
				return // not even the writer takes it
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		top, err := os.MkdirTemp("", "layer")
		if err != nil {
			t.Fatal(err)
		}
		in := filepath.Join(top, "in")
		if err := errors.Join(os.Mkdir(in, 0o755), os.WriteFile(filepath.Join(top, "victim"), []byte("whole"), 0o600)); err != nil {
			t.Fatal(err)
		}
		o := options()
		o.Owners = false
		if _, err := Unpack(context.Background(), &b, in, o); err != nil && !errors.Is(err, ErrLayer) {
			t.Errorf("got %v", err)
		}
		names, err := os.ReadDir(top)
		victim, err2 := os.Stat(filepath.Join(top, "victim"))
		if err := errors.Join(err, err2); err != nil || len(names) != 2 || victim.Size() != 5 || victim.Mode() != 0o600 {
			t.Errorf("outside: %v, %v, %v", names, victim, err)
		}
		if links := filesLike(t, in, victim); links > 0 {
			t.Error("the file outside is in the layer")
		}
		if err := os.RemoveAll(top); err != nil {
			t.Error(err)
		}
	})
}

// filesLike counts the names of a file below a folder.
func filesLike(t *rapid.T, dir string, of os.FileInfo) (count int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if os.SameFile(info, of) {
			count++
		}
		if e.IsDir() {
			count += filesLike(t, filepath.Join(dir, e.Name()), of)
		}
	}
	return count
}
