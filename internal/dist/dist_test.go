package dist_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"securebench/internal/dist"
)

var made = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// TestArchive: the order in which files come, their owners and the time at which the
// archive is written make no difference.
func TestArchive(t *testing.T) {
	a := dist.File{Name: "securebench", Body: []byte("program"), Exec: true}
	b := dist.File{Name: "README.md", Body: []byte("text")}
	var one, two bytes.Buffer
	for w, files := range map[*bytes.Buffer][]dist.File{&one: {a, b}, &two: {b, a}} {
		if err := dist.Archive(w, "s-1/", files, made); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the archives differ")
	}
	z, err := gzip.NewReader(&one)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r)
		if !h.ModTime.Equal(made) || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%+v", h)
		}
		got = append(got, h.Name+" "+h.FileInfo().Mode().String()+" "+string(body))
	}
	if want := "s-1/README.md -rw-r--r-- text|s-1/securebench -rwxr-xr-x program"; strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSums(t *testing.T) {
	got := string(dist.Sums([]dist.File{{Name: "b"}, {Name: "a", Body: []byte("abc")}}))
	want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestImage: the archive is a valid OCI layout and one that Docker loads, the same
// each time, with the program as its only file.
func TestImage(t *testing.T) {
	var one, two bytes.Buffer
	p := v1.Platform{OS: "linux", Architecture: "arm64"}
	for _, w := range []*bytes.Buffer{&one, &two} {
		if err := dist.Image(w, []byte("program"), "securebench:1", "1", p, made); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the images differ")
	}
	dir := t.TempDir()
	for r := tar.NewReader(&one); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	loaded, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(two.Bytes())), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := loaded.ConfigFile()
	if err != nil || config.Architecture != "arm64" || config.OS != "linux" || strings.Join(config.Config.Entrypoint, " ") != "/"+dist.ImageFile {
		t.Errorf("%+v, %v", config, err)
	}
}
