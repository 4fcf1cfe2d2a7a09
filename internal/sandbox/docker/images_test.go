package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/sandboxtest/contract"
)

// buildContext is a tar stream for a build.
func buildContext(t *testing.T, files map[string]string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// build builds an image that is removed at the test's end.
func build(t *testing.T, e *docker.Engine, files map[string]string) sandbox.Image {
	t.Helper()
	tag := fmt.Sprintf("securebench-test:%s", strings.ToLower(strings.ReplaceAll(enginetest.Run(t.Name()), "/", "-")))
	var log bytes.Buffer
	img, err := e.Build(t.Context(), sandbox.Build{Tag: tag, From: "what " + tag}, buildContext(t, files), &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if img.Ref != tag || img.ID == "" || !strings.Contains(log.String(), "Successfully built") {
		t.Errorf("got %+v and the log %q", img, log.String())
	}
	if from, err := e.BuiltFrom(t.Context(), tag); err != nil || from != "what "+tag {
		t.Errorf("the image was built from %q, %v", from, err)
	}
	t.Cleanup(func() {
		if _, err := engineAPI(t).ImageRemove(context.Background(), tag, client.ImageRemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
	return img
}

// suiteImage is the test image with the folder that the suite needs.
func suiteImage(t *testing.T, e *docker.Engine) sandbox.Image {
	t.Helper()
	return build(t, e, map[string]string{
		"Dockerfile": "FROM " + enginetest.Image(t, e).Ref + "\nADD root.tar /\n",
		"root.tar":   string(contract.RootArchive(t)),
	})
}

func TestBuildFails(t *testing.T) {
	e := enginetest.Docker(t)
	for name, files := range map[string]map[string]string{
		"no Dockerfile":   {},
		"bad instruction": {"Dockerfile": "FROM " + enginetest.Image(t, e).Ref + "\nNOSUCH\n"},
		"missing file":    {"Dockerfile": "FROM " + enginetest.Image(t, e).Ref + "\nADD nosuch /\n"},
	} {
		if img, err := e.Build(t.Context(), sandbox.Build{Tag: "securebench-test:fails"}, buildContext(t, files), new(bytes.Buffer)); err == nil {
			t.Errorf("%s: got %+v", name, img)
		}
	}
}

func TestPullFails(t *testing.T) {
	e := enginetest.Docker(t)
	for _, ref := range []string{"localhost:1/no/such:image", "not a reference"} {
		img, err := e.Pull(t.Context(), ref, new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pulling image %q", ref)) {
			t.Errorf("Pull(%q): got %+v, %v", ref, img, err)
		}
	}
}

// TestTwoRemovals removes an image several times at once, as reapers in several
// processes do.
func TestTwoRemovals(t *testing.T) {
	e := enginetest.Docker(t)
	for round := range 16 {
		files := buildContext(t, map[string]string{"round": fmt.Sprint(t.Name(), round)})
		img, err := e.Import(t.Context(), sandbox.Labels{Role: "test"}, files)
		if err != nil {
			t.Fatal(err)
		}
		var g sync.WaitGroup
		for range 4 {
			g.Go(func() {
				if err := e.RemoveImage(t.Context(), img); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		g.Wait()
	}
}

// TestExportImage: the archive holds the image that the ID names, whatever its
// tag means by then, and a missing image leaves no file.
func TestExportImage(t *testing.T) {
	e := enginetest.Docker(t)
	img := build(t, e, map[string]string{"Dockerfile": "FROM scratch\nADD note /\n", "note": t.Name()})
	file := filepath.Join(t.TempDir(), "image.tar")
	id, err := e.ExportImage(t.Context(), img.Ref, file)
	if err != nil || id != img.ID {
		t.Fatalf("got %q, %v, want %q", id, err, img.ID)
	}
	if index := archived(t, file, "manifest.json"); !strings.Contains(index, strings.TrimPrefix(img.ID, "sha256:")) {
		t.Errorf("the archive holds %s, want %s", index, img.ID)
	}
	if got, err := e.ID(t.Context(), img.Ref); err != nil || got != img.ID {
		t.Errorf("ID: %q, %v", got, err)
	}
	none := filepath.Join(t.TempDir(), "none.tar")
	if _, err := e.ExportImage(t.Context(), "securebench-test:none", none); !errors.Is(err, sandbox.ErrImageMissing) {
		t.Errorf("a missing image: %v", err)
	}
	if _, err := os.Lstat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing image left a file: %v", err)
	}
}

// archived returns a file of an archive.
func archived(t *testing.T, archive, name string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("looking for %s: %v", name, err)
		}
		if h.Name != name {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}
