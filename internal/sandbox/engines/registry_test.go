package engines

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
)

// manifests is an engine that knows images by the digests of their manifests.
type manifests struct{ *sandboxtest.Engine }

func (manifests) Info() sandbox.Info {
	return sandbox.Info{OS: "linux", Arch: "amd64", ByManifest: true}
}

// TestWithRegistries: an engine that lacks an image knows it from its registry, unless no
// registry can have it; one that has it is not doubted.
func TestWithRegistries(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: v1.Config{User: "7:8"}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(host + "/a/b:1")
	if err == nil {
		err = remote.Push(ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	inner := sandboxtest.New(sandboxtest.Config{Images: map[string]sandbox.Image{"here": {ID: "sha256:1"}}})
	e := WithRegistries(inner)
	got, err := e.Image(t.Context(), ref.Name())
	if err != nil || got.ID != id.String() || got.Digest != host+"/a/b@"+sum.String() || !got.Absent || got.User != (sandbox.User{UID: 7, GID: 8}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := WithRegistries(manifests{inner}).Image(t.Context(), ref.Name()); err != nil || got.ID != sum.String() {
		t.Errorf("by manifest: %+v, %v", got, err)
	}
	if seen, err := e.(sandbox.Looker).Look(t.Context(), got, "/etc"); err != nil || seen.Type != "" {
		t.Errorf("%+v, %v", seen, err)
	}
	if got, err := e.Image(t.Context(), "here"); err != nil || got.Absent {
		t.Errorf("%+v, %v", got, err)
	}
	for _, missing := range []string{host + "/none:1", "securebench-python:3", id.String()} {
		_, err := e.Image(t.Context(), missing)
		_, asked := errors.AsType[*AbsentError](err)
		if !errors.Is(err, sandbox.ErrImageMissing) || asked != strings.HasPrefix(missing, host) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	trees, ok := e.(sandbox.Overlays) // what agents bring is put on it, for workers to have the same
	if !ok {
		t.Fatal("it keeps no overlays")
	}
	made, err := trees.Overlay(t.Context(), sandbox.OverlaySpec{Key: "k"}, func(w io.Writer) error { return tar.NewWriter(w).Close() })
	if err != nil || made.OverlayKey() != "k" {
		t.Error(err)
	}
	if all, err := trees.Overlays(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if err := trees.RemoveOverlay(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}
