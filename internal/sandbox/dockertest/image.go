package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
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

// GitImage returns an image with git, python3 and pytest.
func GitImage(t testing.TB, e sandbox.Engine) sandbox.Image {
	t.Helper()
	const ref = "securebench-pytest:1"
	img, err := e.Image(t.Context(), ref)
	if err != nil {
		Missing(t, envRequire, fmt.Errorf("looking up %s: %w", ref, err))
	}
	return img
}

// Script makes an image of another by running a shell script in it as root,
// and then applying changes in the words of a Dockerfile. It is gone at the
// test's end.
func Script(t testing.TB, e interface {
	sandbox.Engine
	sandbox.Builder
}, from sandbox.Image, script string, changes ...string) sandbox.Image {
	t.Helper()
	lines := append([]string{"FROM " + from.Ref, "COPY script /tmp/script", "RUN sh -e /tmp/script && rm /tmp/script"}, changes...)
	tag := "securebench-test:" + strings.ToLower(rand.Text())
	var log bytes.Buffer
	img, err := e.Build(t.Context(), sandbox.Build{Tag: tag}, archive(t, map[string]string{"Dockerfile": strings.Join(lines, "\n") + "\n", "script": script}), &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		api, err := client.New(client.FromEnv)
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		if _, err := api.ImageRemove(context.Background(), tag, client.ImageRemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
	return img
}
