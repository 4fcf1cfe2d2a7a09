package imagestore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/imagestore"
)

// TestSameAsDocker: the engine gives an image from the same registry, and one that
// it saved, the same ID and digest.
func TestSameAsDocker(t *testing.T) {
	e := enginetest.Docker(t)
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	this := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	for i, what := range []remote.Taggable{imagestore.ImageOf(t, imagestore.TarOf(t, "a=1"), imagestore.TarOf(t, ".wh.a", "b=1")), imagestore.IndexOf(imagestore.ImageOf(t, imagestore.TarOf(t, "a=1"), imagestore.TarOf(t, "c=1")), &this)} {
		ref := fmt.Sprintf("%s/same:%d", imagestore.Server(t), i)
		imagestore.Push(t, ref, what)
		want, err := e.Pull(t.Context(), ref, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := api.ImageRemove(context.Background(), ref, client.ImageRemoveOptions{}); err != nil {
				t.Error(err)
			}
		})
		s := imagestore.OpenStore(t, t.TempDir())
		got, err := s.Pull(t.Context(), ref, imagestore.Addition{})
		if err != nil || got.ID != want.ID || got.Digest != want.Digest {
			t.Errorf("got %s %s, %v; Docker has %s %s", got.ID, got.Digest, err, want.ID, want.Digest)
		}
		r, err := api.ImageSave(t.Context(), []string{ref})
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		other := imagestore.OpenStore(t, t.TempDir())
		again, err := other.Import(t.Context(), imagestore.Write(t, data), imagestore.Addition{}, nil)
		if err != nil || again.ID != want.ID || again.Ref != ref || imagestore.Contents(t, again) != imagestore.Contents(t, got) {
			t.Errorf("saved: got %+v, %v", again, err)
		}
	}
}

// TestBusyDocker: a registry that is asked too much is also busy for Docker.
func TestBusyDocker(t *testing.T) {
	e := enginetest.Docker(t)
	host, refuse := imagestore.Refusing(t)
	refuse.Store(100)
	if _, err := e.Pull(t.Context(), host+"/plain:1", io.Discard); !errors.Is(err, sandbox.ErrBusy) {
		t.Errorf("refused: %v", err)
	}
	refuse.Store(0)
	if _, err := e.Pull(t.Context(), host+"/none:1", io.Discard); err == nil || errors.Is(err, sandbox.ErrBusy) {
		t.Errorf("an image that is not there: %v", err)
	}
}
