package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/dockertest"
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
	tag := fmt.Sprintf("securebench-test:%s", strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")))
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
		"Dockerfile": "FROM " + dockertest.Image(t, e).Ref + "\nADD root.tar /\n",
		"root.tar":   string(contract.RootArchive(t)),
	})
}

func TestBuildFails(t *testing.T) {
	e := dockertest.Docker(t)
	for name, files := range map[string]map[string]string{
		"no Dockerfile":   {},
		"bad instruction": {"Dockerfile": "FROM " + dockertest.Image(t, e).Ref + "\nNOSUCH\n"},
		"missing file":    {"Dockerfile": "FROM " + dockertest.Image(t, e).Ref + "\nADD nosuch /\n"},
	} {
		if img, err := e.Build(t.Context(), sandbox.Build{Tag: "securebench-test:fails"}, buildContext(t, files), new(bytes.Buffer)); err == nil {
			t.Errorf("%s: got %+v", name, img)
		}
	}
}

func TestPullFails(t *testing.T) {
	e := dockertest.Docker(t)
	for _, ref := range []string{"localhost:1/no/such:image", "not a reference"} {
		img, err := e.Pull(t.Context(), ref, new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pulling image %q", ref)) {
			t.Errorf("Pull(%q): got %+v, %v", ref, img, err)
		}
	}
}
