package imagestore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/owner"
	"securebench/internal/sandbox/platform"
)

func openStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Tests don't wait for the whole machine's disk: only power failures need it.
	s.flush = func(*os.File) error { return nil }
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// tarOf makes a layer of files, each with its name as content where none is given.
func tarOf(t testing.TB, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		name, content, _ := strings.Cut(name, "=")
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), Uid: os.Geteuid(), Gid: os.Getegid()}
		if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func opener(b []byte) tarball.Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

// imageOf makes an image of layers for this machine.
func imageOf(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: platform.Here().Arch,
		Config: v1.Config{User: "1000", Env: []string{"PATH=/bin"}}, RootFS: v1.RootFS{Type: "layers"}})
	for _, data := range layers {
		var l v1.Layer
		if err == nil {
			l, err = tarball.LayerFromOpener(opener(data))
		}
		if err == nil {
			img, err = mutate.AppendLayers(img, l)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func idOf(t testing.TB, img v1.Image) string {
	t.Helper()
	h, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// contents describes the files of an image, layer by layer.
func contents(t testing.TB, img Image) string {
	t.Helper()
	var out []string
	for i, dir := range img.Layers {
		err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if d.Type()&fs.ModeCharDevice != 0 {
				out = append(out, fmt.Sprintf("%d:%s deleted", i, name))
				return nil
			}
			b, err := os.ReadFile(filepath.Join(dir, name))
			out = append(out, fmt.Sprintf("%d:%s=%s", i, name, b))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(out, " ")
}

// nothing checks that a store has no image, no layer and nothing unfinished.
func nothing(t testing.TB, s *Store) {
	t.Helper()
	images, err := s.List()
	if err != nil || len(images) > 0 {
		t.Errorf("images: %v, %v", images, err)
	}
	for _, dir := range []string{layersDir, UnfinishedDir, configsDir, usesDir} {
		if names, err := s.names(dir); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", dir, names, err)
		}
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "images"))
	img := imageOf(t, tarOf(t, "a=1", "b=2"), tarOf(t, ".wh.a", "c=3"), tarOf(t, "a=1", "b=2"))
	var seen []string
	got, err := s.Add(t.Context(), img, Addition{Ref: "docker.io/library/name", Origin: "here", Progress: func(p Progress) {
		seen = append(seen, fmt.Sprintf("%d/%d:%v", p.Layer, p.Layers, p.Shared))
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Ref != "name:latest" || got.ID != idOf(t, img) || got.Origin != "here" || got.Config.Config.User != "1000" || got.Size != 3 {
		t.Errorf("got %+v", got)
	}
	// The first layer occurs again as the last, which alone counts.
	if files := contents(t, got); files != "0:a deleted 0:c=3 1:a=1 1:b=2" {
		t.Errorf("got %s", files)
	}
	if want := []string{"1/3:false", "2/3:false", "3/3:true"}; !slices.Equal(slices.Compact(seen), want) {
		t.Errorf("progress: %q", seen)
	}
	if info, err := os.Stat(s.Dir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the store has mode %v, %v", info.Mode(), err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	if _, err := s.Add(t.Context(), imageOf(t, tarOf(t, "a=1")), Addition{Ref: "localhost:5000/X/y:z"}); err == nil {
		t.Error("a name with capitals was taken")
	}
	nothing(t, s)
	img, err := s.Add(t.Context(), imageOf(t, tarOf(t, "a=1")), Addition{Ref: "py:3", Digest: "py@sha256:" + strings.Repeat("5", 64)})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"py:3", "library/py:3", "docker.io/py:3", "index.docker.io/library/py:3", img.ID, hexOf(img.ID), hexOf(img.ID)[:12],
		"py@sha256:" + strings.Repeat("5", 64)} {
		got, release, err := s.Use(ref)
		if err != nil || got.ID != img.ID {
			t.Errorf("%s: got %v, %v", ref, got.ID, err)
			continue
		}
		if err := errors.Join(release(), release()); err != nil {
			t.Error(err)
		}
	}
	for _, ref := range []string{"py", "py:4", "ghcr.io/py:3", "sha256:" + strings.Repeat("0", 64), "x@sha256:" + strings.Repeat("5", 64), hexOf(img.ID)[:11]} {
		if _, _, err := s.Use(ref); !errors.Is(err, sandbox.ErrImageMissing) {
			t.Errorf("%s: got %v", ref, err)
		}
	}
	for _, ref := range []string{"", "A:b", "../../etc", "a b", "sha256:xyz\nd"} {
		if _, _, err := s.Use(ref); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v", ref, err)
		}
	}
}

// TestLife: what one process uses, another does not remove.
func TestLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, theirs := openStore(t, dir), openStore(t, dir)
	first, second := imageOf(t, tarOf(t, "base=1"), tarOf(t, "a=1")), imageOf(t, tarOf(t, "base=1"), tarOf(t, "a=2"))
	add := func(img v1.Image, ref string) Image {
		t.Helper()
		got, err := ours.Add(t.Context(), img, Addition{Ref: ref})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	one := add(first, "x")
	add(first, "other:name")
	_, release, err := theirs.Use("x")
	if err != nil {
		t.Fatal(err)
	}
	add(second, "x") // takes the name
	if err := ours.Remove("other:name"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("an image in use was removed: %v", err)
	}
	if found, err := ours.Prune(t.Context(), true); err != nil || len(found) != 2 || found[0] != (Leftover{Name: "x:latest", Kind: "image"}) || found[1].Kind != "layer" {
		t.Errorf("pruning removed %v, %v", found, err)
	}
	if contents(t, one) != "0:base=1 1:a=1" {
		t.Error("an image in use lost files")
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := ours.Remove("other:name"); err != nil {
		t.Error(err)
	}
	nothing(t, theirs)
	if err := ours.Remove("other:name"); !errors.Is(err, sandbox.ErrImageMissing) {
		t.Errorf("got %v", err)
	}
}

// TestReplaced: an image that lost its name stays as long as it is used, and is
// then a leftover. One that was added without a name is none.
func TestReplaced(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	for i, ref := range []string{"x", "", "x"} {
		if _, err := s.Add(t.Context(), imageOf(t, tarOf(t, "base=1"), tarOf(t, fmt.Sprint("a=", i))), Addition{Ref: ref}); err != nil {
			t.Fatal(err)
		}
	}
	old := idOf(t, imageOf(t, tarOf(t, "base=1"), tarOf(t, "a=0")))
	_, release, err := s.Use(old)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := s.Leftovers(false); err != nil || len(found) != 0 {
		t.Errorf("in use: %v, %v", found, err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	listed, err := s.Leftovers(false)
	removed, err2 := s.Prune(t.Context(), false)
	if err != nil || err2 != nil || !slices.Equal(listed, removed) || len(listed) != 2 || listed[0].Name != old || listed[1].Size != 1 {
		t.Errorf("got %v, then %v, %v, %v", listed, removed, err, err2)
	}
	if images, err := s.List(); err != nil || len(images) != 2 {
		t.Errorf("left: %v, %v", images, err)
	}
}

// TestOwner: an image whose process has ended is removed with its layers, one whose
// process lives is not.
func TestOwner(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	dead := owner.Current()
	dead.PID = child.Process.Pid
	for name, o := range map[string]owner.Owner{"dead": dead, "alive": owner.Current()} {
		if _, err := s.AddRoot(t.Context(), bytes.NewReader(tarOf(t, "a="+name)), Addition{Owner: o.String()}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Reap(t.Context()); err != nil || n != 2 { // the image and its layer
		t.Errorf("reaped %d, %v", n, err)
	}
	images, err := s.List()
	if err != nil || len(images) != 1 || contents(t, images[0]) != "0:a=alive" {
		t.Errorf("left: %v, %v", images, err)
	}
	if n, err := s.Reap(t.Context()); err != nil || n != 0 {
		t.Errorf("reaped again: %d, %v", n, err)
	}
	if err := s.Remove(images[0].ID); err != nil {
		t.Error(err)
	}
	nothing(t, s)
}

// TestFailure: whatever part of an addition is wrong, nothing of it stays.
func TestFailure(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	good := tarOf(t, "a=1")
	config := func(img v1.Image) []byte {
		b, err := img.RawConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	blobOf := func(b []byte) blob { return blob{Open: opener(b)} }
	other := blobOf(good)
	other.Digest = "sha256:" + strings.Repeat("1", 64)
	two := config(imageOf(t, good, tarOf(t, "b=1")))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(tarOf(t, "b=1")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]content{
		"other content":      {Config: two, Layers: []blob{blobOf(good), blobOf(tarOf(t, "b=2"))}},
		"content appended":   {Config: two, Layers: []blob{blobOf(good), blobOf(append(tarOf(t, "b=1"), 0))}},
		"another digest":     {Config: config(imageOf(t, good)), Layers: []blob{other}},
		"too few layers":     {Config: two, Layers: []blob{blobOf(good)}},
		"too many layers":    {Config: two, Layers: []blob{blobOf(good), blobOf(good), blobOf(good)}},
		"no layers":          {Config: config(imageOf(t))},
		"no configuration":   {Config: []byte("{"), Layers: []blob{blobOf(good)}},
		"a cut stream":       {Config: two, Layers: []blob{blobOf(good), blobOf(packed.Bytes()[:packed.Len()-9])}},
		"a broken stream":    {Config: two, Layers: []blob{blobOf(good), blobOf(append(packed.Bytes()[:packed.Len():packed.Len()], "x"...))}},
		"another method":     {Config: two, Layers: []blob{blobOf(good), blobOf([]byte("\xfd7zXZ\x00....."))}},
		"a layer that fails": {Config: two, Layers: []blob{blobOf(good), {Open: func() (io.ReadCloser, error) { return nil, errors.New("the registry\nis down") }}}},
	} {
		_, err := s.working("x", func(w *work) (Image, error) { return s.addAll(t.Context(), w, c, Addition{Ref: "x"}) })
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", name, err)
		}
		nothing(t, s)
	}
	honest := content{Config: two, Layers: []blob{blobOf(good), blobOf(packed.Bytes())}}
	if _, err := s.working("x", func(w *work) (Image, error) { return s.addAll(t.Context(), w, honest, Addition{Ref: "x"}) }); err != nil {
		t.Errorf("the honest image: %v", err)
	}
}

// TestRepair: a part that was removed makes the image a missing one, and
// adding it again makes it whole.
func TestRepair(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	img := imageOf(t, tarOf(t, "a=1"))
	for _, lost := range []string{configsDir + "/*", layersDir + "/*/" + infoFile, layersDir + "/*"} {
		if _, err := s.Add(t.Context(), img, Addition{Ref: "x"}); err != nil {
			t.Fatalf("%s: %v", lost, err)
		}
		files, err := filepath.Glob(filepath.Join(s.dir, lost))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.RemoveAll(files[0]); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Use("x"); !errors.Is(err, sandbox.ErrImageMissing) {
			t.Errorf("%s: got %v", lost, err)
		}
	}
	if got, err := s.Add(t.Context(), img, Addition{Ref: "x"}); err != nil || contents(t, got) != "0:a=1" {
		t.Errorf("got %v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, indexFile), []byte(`{"images":[{"id":"sha256:../../x","added":"2020-01-01T00:00:00Z","layers":[]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(); err == nil || !strings.Contains(err.Error(), "remove "+s.dir) {
		t.Errorf("a damaged index: %v", err)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	reachable := filepath.Join(t.TempDir(), "s")
	openStore(t, reachable)
	if err := os.Chmod(reachable, 0o755); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "s")
	openStore(t, other)
	if err := os.WriteFile(filepath.Join(other, formatFile), []byte("securebench images 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if err := os.MkdirAll(filepath.Join(foreign, layersDir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{reachable: "chmod 700", other: "SECUREBENCH_IMAGES", foreign: "not a store"} {
		if s, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want %q", s, err, want)
		}
	}
	for want, env := range map[string]map[string]string{
		"/a/b": {"SECUREBENCH_IMAGES": "/a/b", "HOME": "/h"}, "/d/securebench/images": {"XDG_DATA_HOME": "/d", "HOME": "/h"},
		"/h/.local/share/securebench/images": {"XDG_DATA_HOME": "d", "HOME": "/h"},
	} {
		if got, err := DefaultDir(func(k string) string { return env[k] }); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	if got, err := DefaultDir(func(string) string { return "" }); err == nil {
		t.Errorf("got %s", got)
	}
}

// TestTogether: processes that add the same layers unpack each once.
func TestTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := tarOf(t, "a=1")
	var opened sync.Map
	var group sync.WaitGroup
	for i := range 8 {
		s := openStore(t, dir)
		img := imageOf(t, data, tarOf(t, fmt.Sprint("b=", i%2)))
		c, err := fromImage(img)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := c.diffIDs()
		if err != nil {
			t.Fatal(err)
		}
		for n := range c.Layers {
			open := c.Layers[n].Open
			c.Layers[n].Open = func() (io.ReadCloser, error) {
				if _, again := opened.LoadOrStore(ids[n], true); again {
					t.Errorf("layer %s was unpacked twice", ids[n])
				}
				return open()
			}
		}
		group.Go(func() {
			ref := fmt.Sprint("x", i)
			if _, err := s.working(ref, func(w *work) (Image, error) { return s.addAll(t.Context(), w, c, Addition{Ref: ref}) }); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	s := openStore(t, dir)
	if images, err := s.List(); err != nil || len(images) != 8 {
		t.Errorf("got %d images, %v", len(images), err)
	}
	if found, err := s.Leftovers(false); err != nil || len(found) != 0 {
		t.Errorf("leftovers: %v, %v", found, err)
	}
}

// TestOverlay: the kernel shows of the layers what Docker shows.
func TestOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	s := openStore(t, t.TempDir())
	img, err := s.Add(t.Context(), imageOf(t, tarOf(t, "a=1", "b=1", "d/x=1", "e/x=1", "f/x=1"),
		tarOf(t, ".wh.a", "b=2", "d/.wh..wh..opq", "d/y=2", ".wh.e", "e/y=2", "f/y=2")), Addition{Ref: "x"})
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	if err := unix.Mount("overlay", at, "overlay", unix.MS_RDONLY, "lowerdir="+img.Layers[1]+":"+img.Layers[0]); err != nil {
		t.Skip("mounting an overlay:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if got, want := contents(t, Image{Layers: []string{at}}), "0:b=2 0:d/y=2 0:e/y=2 0:f/x=1 0:f/y=2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFull: a full disk, or one without free inodes, is an error that leaves
// nothing, and a smaller image still fits.
func TestFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprint("f", i)
	}
	for options, data := range map[string][]byte{"size=2m": tarOf(t, "a="+strings.Repeat("x", 4<<20)), "nr_inodes=100": tarOf(t, many...)} {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options+",mode=700"); err != nil {
			t.Skip("mounting a small disk:", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		s := openStore(t, dir)
		if _, err := s.Add(context.Background(), imageOf(t, tarOf(t, "b=1"), data), Addition{Ref: "x"}); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: got %v", options, err)
		}
		nothing(t, s)
		if _, err := s.Add(context.Background(), imageOf(t, tarOf(t, "b=1")), Addition{Ref: "x"}); err != nil {
			t.Errorf("%s: the small image: %v", options, err)
		}
	}
}
