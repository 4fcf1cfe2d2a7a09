package imagestore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
)

// write makes a file and returns its name.
func write(t testing.TB, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// saved writes an image as "docker save" does.
func saved(t testing.TB, img v1.Image, ref string) []byte {
	t.Helper()
	var b bytes.Buffer
	tag, err := name.NewTag(ref)
	if err == nil {
		err = tarball.Write(tag, img, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// laidOut writes an image as an OCI layout.
func laidOut(t testing.TB, idx v1.ImageIndex) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := layout.Write(dir, idx); err != nil {
		t.Fatal(err)
	}
	return dir
}

func indexOf(img v1.Image, platforms ...*v1.Platform) v1.ImageIndex {
	var adds []mutate.IndexAddendum
	for _, p := range platforms {
		adds = append(adds, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: p}})
	}
	return mutate.AppendManifests(empty.Index, adds...)
}

// tarOfDir archives the files of a folder.
func tarOfDir(t testing.TB, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// server serves a registry on this machine.
func server(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func push(t testing.TB, ref string, what remote.Taggable) {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err == nil {
		err = remote.Push(parsed, what)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// exporter gives an archive for an image of an engine.
type exporter struct {
	id      string
	archive []byte
}

func (e exporter) ExportImage(_ context.Context, _, file string) (string, error) {
	return e.id, os.WriteFile(file, e.archive, 0o600)
}

// TestSources: one image has the same ID and files wherever it comes from.
func TestSources(t *testing.T) {
	t.Parallel()
	img := imageOf(t, tarOf(t, "a=1", "d/b=2"), tarOf(t, ".wh.a", "c=3"))
	z, err := tarball.LayerFromOpener(opener(tarOf(t, "a=1", "d/b=2")), tarball.WithCompression(compression.ZStd))
	if err != nil {
		t.Fatal(err)
	}
	host, this, other := server(t), libraryPlatform(platform.Here()), &v1.Platform{OS: "linux", Architecture: "riscv64"}
	push(t, host+"/plain:1", img)
	push(t, host+"/many:1", indexOf(img, other, &this))
	zstdImage, err := mutate.Append(empty.Image, mutate.Addendum{Layer: z})
	if err != nil {
		t.Fatal(err)
	}
	if zstdImage, err = mutate.ConfigFile(zstdImage, mustConfig(t, zstdImage)); err != nil {
		t.Fatal(err)
	}
	push(t, host+"/zstd:1", zstdImage)
	one, two := laidOut(t, indexOf(img, nil)), laidOut(t, indexOf(img, other, &this))
	archive := saved(t, img, "docker.io/saved:1")
	for src, want := range map[string]string{
		write(t, archive): "saved:1", write(t, zipped(t, archive)): "saved:1", "oci:" + one: "", "oci:" + two: "",
		write(t, tarOfDir(t, one)): "", write(t, zipped(t, tarOfDir(t, two))): "", "docker:x/y": "x/y:latest",
	} {
		s := openStore(t, t.TempDir())
		got, err := s.Import(t.Context(), src, Addition{}, exporter{idOf(t, img), archive})
		if err != nil || got.ID != idOf(t, img) || contents(t, got) != "0:a=1 0:d/b=2 1:a deleted 1:c=3" || got.Ref != want || got.Origin != src {
			t.Errorf("%s: got %+v, %v", src, got, err)
		}
	}
	for _, ref := range []string{host + "/plain:1", host + "/many:1", host + "/zstd:1"} {
		s := openStore(t, t.TempDir())
		got, err := s.Pull(t.Context(), ref, Addition{})
		if err != nil || !strings.HasPrefix(got.Digest, strings.TrimSuffix(ref, ":1")+"@sha256:") || got.Ref != ref || !strings.HasPrefix(contents(t, got), "0:a=1 0:d/b=2") {
			t.Errorf("%s: got %+v, %v", ref, got, err)
		}
		if _, release, err := s.Use(got.Digest); err != nil || release() != nil {
			t.Errorf("by digest: %v", err)
		}
	}
}

func mustConfig(t testing.TB, img v1.Image) *v1.ConfigFile {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", platform.Here().Arch
	return c
}

// TestWrongSources: each is refused, and leaves nothing.
func TestWrongSources(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	img := imageOf(t, tarOf(t, "a=1"))
	other := &v1.Platform{OS: "linux", Architecture: "riscv64"}
	archive := saved(t, img, "x:1")
	changed := func(suffix string) string {
		dir := laidOut(t, indexOf(img, nil))
		var manifest, config v1.Hash
		var err error
		if manifest, err = img.Digest(); err == nil {
			config, err = img.ConfigName()
		}
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(filepath.Join(dir, "blobs"), func(file string, d fs.DirEntry, err error) error {
			kind := "layer"
			switch filepath.Base(file) {
			case manifest.Hex:
				kind = "manifest"
			case config.Hex:
				kind = "config"
			}
			if err != nil || d.IsDir() || kind != suffix {
				return err
			}
			b, err := os.ReadFile(file)
			return errors.Join(err, os.WriteFile(file, append(b, ' '), 0o600))
		})
		if err != nil {
			t.Fatal(err)
		}
		return "oci:" + dir
	}
	linked := laidOut(t, indexOf(img, nil))
	if err := errors.Join(os.Remove(filepath.Join(linked, "index.json")), os.Symlink(write(t, []byte("{}")), filepath.Join(linked, "index.json"))); err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{
		changed("manifest"): "another digest", changed("config"): "another digest", changed("layer"): "",
		"oci:" + laidOut(t, indexOf(img, other)): "none of them for linux", "oci:" + laidOut(t, indexOf(img)): "0 images", "oci:" + linked: "",
		"oci:" + t.TempDir(): "neither a manifest.json", t.TempDir(): "no files", write(t, nil): "no files", write(t, []byte("text")): "damaged",
		write(t, archive[:len(archive)/2]): "", write(t, bytes.ReplaceAll(archive, []byte("sha256:"), []byte("sha256-"))): "",
		"docker:x": "the engine calls the image", "/does/not/exist": "no such file",
	} {
		got, err := s.Import(t.Context(), src, Addition{}, exporter{"sha256:" + strings.Repeat("0", 64), archive})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want %q", src, got.ID, err, want)
		}
		nothing(t, s)
	}
	host := server(t)
	push(t, host+"/other:1", indexOf(img, other))
	alien, err := mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: "riscv64", RootFS: mustConfig(t, img).RootFS})
	if err != nil {
		t.Fatal(err)
	}
	push(t, host+"/alien:1", alien)
	for _, ref := range []string{host + "/none:1", host + "/other:1", host + "/alien:1", "A B"} {
		if got, err := s.Pull(t.Context(), ref, Addition{}); err == nil {
			t.Errorf("%s: got %v", ref, got)
		}
		nothing(t, s)
	}
}

// TestOutsideRegistry: the addresses in a manifest are never asked.
func TestOutsideRegistry(t *testing.T) {
	t.Parallel()
	img := imageOf(t, tarOf(t, "a=1"))
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, urls := range [][]string{nil, {"http://127.0.0.1:1/x"}} {
		m := manifest.DeepCopy()
		m.Layers[0].URLs = urls
		_, err := fromRegistry(described{img, m})
		if (err == nil) != (urls == nil) {
			t.Errorf("%v: got %v", urls, err)
		}
	}
}

type described struct {
	v1.Image
	manifest *v1.Manifest
}

func (d described) Manifest() (*v1.Manifest, error) { return d.manifest, nil }

// TestRootFolder: a folder and its archive are the same image.
func TestRootFolder(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), openStore(t, t.TempDir())
	err := errors.Join(os.Mkdir(filepath.Join(dir, "b"), 0o711), os.WriteFile(filepath.Join(dir, "b", "f"), []byte("x"), 0o640),
		os.Symlink("/etc/passwd", filepath.Join(dir, "l")), os.Link(filepath.Join(dir, "b", "f"), filepath.Join(dir, "h")), os.Symlink("..", filepath.Join(dir, "up")))
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Import(t.Context(), dir, Addition{Ref: "root"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := archiveFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{b, zipped(t, b)} {
		if second, err := s.Import(t.Context(), write(t, data), Addition{}, nil); err != nil || second.ID != first.ID {
			t.Errorf("got %v, %v; want %s", second.ID, err, first.ID)
		}
	}
	one, err1 := os.Stat(filepath.Join(first.Layers[0], "b", "f"))
	two, err2 := os.Stat(filepath.Join(first.Layers[0], "h"))
	to, err3 := os.Readlink(filepath.Join(first.Layers[0], "l"))
	if errors.Join(err1, err2, err3) != nil || !os.SameFile(one, two) || one.Mode() != 0o640 || to != "/etc/passwd" {
		t.Errorf("got %v, %v, %q, %v", one, two, to, errors.Join(err1, err2, err3))
	}
	if err := os.WriteFile(filepath.Join(dir, ".wh.x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), dir, Addition{}, nil); err == nil {
		t.Error("a file became a whiteout")
	}
}

// TestDescribe: a registry says of an image what it is, and what whoever pulls it gets.
func TestDescribe(t *testing.T) {
	t.Parallel()
	this, other := libraryPlatform(platform.Here()), &v1.Platform{OS: "linux", Architecture: "riscv64"}
	img := imageOf(t, tarOf(t, "a=1"))
	named, err := mutate.Config(img, v1.Config{User: "worker", Env: []string{"B=1", "A=2", "PATH=/opt"}})
	if err != nil {
		t.Fatal(err)
	}
	host := server(t)
	numbered, err := mutate.Config(img, v1.Config{User: "7:8"})
	if err != nil {
		t.Fatal(err)
	}
	push(t, host+"/plain:1", img)
	push(t, host+"/number:1", numbered)
	push(t, host+"/many:1", indexOf(named, other, &this))
	for ref, user := range map[string]string{host + "/plain:1": "1000", host + "/number:1": "", host + "/many:1": "worker"} {
		d, err := Describe(t.Context(), ref, platform.Here())
		if err != nil || d.UserName != user || !d.Absent || d.Ref != ref {
			t.Fatalf("%s: %+v, %v", ref, d, err)
		}
		got, err := openStore(t, t.TempDir()).Pull(t.Context(), d.Digest, Addition{})
		if err != nil || got.ID != d.ID || got.Digest != d.Digest || !strings.HasSuffix(d.Digest, "@"+d.Manifest) {
			t.Errorf("%s is described as %+v, and pulled it is %s %s, %v", ref, d, got.ID, got.Digest, err)
		}
		if user == "" && d.User != (sandbox.User{UID: 7, GID: 8}) {
			t.Errorf("user: %+v", d.User)
		}
		if user == "worker" && (strings.Join(d.Env, " ") != "A B PATH" || d.Path != "/opt") {
			t.Errorf("variables: %+v", d)
		}
	}
	if _, err := Describe(t.Context(), host+"/none:1", platform.Here()); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("an image that is not there: %v", err)
	}
}

// refusing serves a registry that refuses so many requests for manifests.
func refusing(t testing.TB) (string, *atomic.Int64) {
	t.Helper()
	var refuse atomic.Int64
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/manifests/") && r.Method != http.MethodPut && refuse.Add(-1) >= 0 {
			http.Error(w, `{"errors":[{"code":"TOOMANYREQUESTS","message":"come back later"}]}`, http.StatusTooManyRequests)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), &refuse
}

// TestBusy: a registry that is asked too much for a moment is asked again. One that goes
// on refusing is busy; one without the image is not.
func TestBusy(t *testing.T) {
	t.Parallel()
	host, refuse := refusing(t)
	push(t, host+"/plain:1", imageOf(t, tarOf(t, "a=1")))
	refuse.Store(2)
	d, err := Describe(t.Context(), host+"/plain:1", platform.Here())
	if err != nil || refuse.Load() >= 0 {
		t.Fatalf("refused twice: %v", err)
	}
	refuse.Store(100)
	if _, err := openStore(t, t.TempDir()).Pull(t.Context(), d.Digest, Addition{}); !errors.Is(err, sandbox.ErrBusy) {
		t.Errorf("refused for good: %v", err)
	}
	refuse.Store(0)
	if _, err := openStore(t, t.TempDir()).Pull(t.Context(), host+"/none:1", Addition{}); err == nil || errors.Is(err, sandbox.ErrBusy) {
		t.Errorf("an image that is not there: %v", err)
	}
}
