package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// Image returns an image with python3 and sh: the one that SECUREBENCH_TEST_IMAGE
// names, or else one of the usual names.
func Image(t testing.TB, e sandbox.Engine) sandbox.Image {
	t.Helper()
	refs := []string{"securebench-python:3", "securebench-python:bookworm"}
	if ref := os.Getenv(envImage); ref != "" {
		refs = []string{ref}
	}
	return oneOf(t, e, refs)
}

// GitImage returns an image with git, python3 and pytest.
func GitImage(t testing.TB, e sandbox.Engine) sandbox.Image {
	t.Helper()
	return oneOf(t, e, []string{"securebench-pytest:1"})
}

// oneOf returns the first image that an engine has. A native engine takes what it has
// not from a local Docker engine.
func oneOf(t testing.TB, e sandbox.Engine, refs []string) sandbox.Image {
	t.Helper()
	var errs []error
	for _, ref := range refs {
		img, err := e.Image(t.Context(), ref)
		if errors.Is(err, sandbox.ErrImageMissing) && !builds(e) {
			if err = take(t, ref); err == nil {
				img, err = e.Image(t.Context(), ref)
			}
		}
		if err == nil {
			return img
		}
		if builds(e) && !errors.Is(err, sandbox.ErrImageMissing) {
			t.Fatalf("looking up the test image: %v", err)
		}
		errs = append(errs, err)
	}
	variable := envNative
	if builds(e) {
		variable = envDocker
	}
	missing(t, variable, fmt.Errorf("none of the images %s is there: %w", strings.Join(refs, ", "), errors.Join(errs...)))
	return sandbox.Image{}
}

// Script makes an image of another by running a shell script in it as root, and then
// applying changes in the words of a Dockerfile. It is gone at the test's end.
func Script(t testing.TB, e sandbox.Engine, from sandbox.Image, script string, changes ...string) sandbox.Image {
	t.Helper()
	if b, ok := e.(sandbox.Builder); ok {
		return scriptDocker(t, b, from, script, changes...)
	}
	return DeriveLayer(t, e, from, changed(t, e, from, script), applying(t, changes))
}

// Derive makes an image of another, with files by their names without the leading
// slash, and changes in the words of a Dockerfile. It is gone at the test's end.
func Derive(t testing.TB, e sandbox.Engine, from sandbox.Image, files map[string]string, changes ...string) sandbox.Image {
	t.Helper()
	if !builds(e) {
		return DeriveLayer(t, e, from, archiveOf(t, files).Bytes(), applying(t, changes))
	}
	img, err := e.Image(t.Context(), deriveDocker(t, from, files, changes...))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// archiveOf is an archive of programs by their names.
func archiveOf(t testing.TB, files map[string]string) *bytes.Buffer {
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

// deriveDocker is [Derive] for a Docker engine. It returns the image's id.
func deriveDocker(t testing.TB, from sandbox.Image, files map[string]string, changes ...string) string {
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
		DestinationPath: "/", Content: archiveOf(t, files)}); err != nil {
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

// scriptDocker is [Script] for a Docker engine.
func scriptDocker(t testing.TB, e sandbox.Builder, from sandbox.Image, script string, changes ...string) sandbox.Image {
	t.Helper()
	lines := append([]string{"FROM " + from.Ref, "COPY script /tmp/script", "RUN sh -e /tmp/script && rm /tmp/script"}, changes...)
	tag := "securebench-test:" + strings.ToLower(rand.Text())
	var log bytes.Buffer
	img, err := e.Build(t.Context(), sandbox.Build{Tag: tag}, archiveOf(t, map[string]string{"Dockerfile": strings.Join(lines, "\n") + "\n", "script": script}), &log)
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
