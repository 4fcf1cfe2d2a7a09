package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// Derive makes an image of another, with files by their names without the
// leading slash and a changed configuration in the words of a Dockerfile, and
// returns its id. It is gone at the test's end.
func Derive(t testing.TB, from sandbox.Image, files map[string]string, changes ...string) string {
	t.Helper()
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	c, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: from.ID, Entrypoint: []string{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, _ = api.ContainerRemove(context.Background(), c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}()
	if _, err := api.CopyToContainer(t.Context(), c.ID, client.CopyToContainerOptions{
		DestinationPath: "/", Content: archive(t, files)}); err != nil {
		t.Fatal(err)
	}
	res, err := api.ContainerCommit(t.Context(), c.ID, client.ContainerCommitOptions{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := api.ImageRemove(context.Background(), res.ID, client.ImageRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	return res.ID
}

func archive(t testing.TB, files map[string]string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}
