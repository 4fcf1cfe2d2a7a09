// Package nativetest gives tests a native engine and an image, or a reason why
// there is none.
//
// A test that needs one is skipped with the reason, unless the environment has
// SECUREBENCH_TEST_NATIVE=require: then it fails. With SECUREBENCH_TEST_NATIVE=never it
// is skipped in any case. The images are those of the user's image store, or are
// taken from a local Docker engine, once.
package nativetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/dockertest"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/oci"
)

// The environment variables that control tests.
const (
	envRequire = "SECUREBENCH_TEST_NATIVE"
	envImage   = "SECUREBENCH_TEST_IMAGE"
	envStore   = "SECUREBENCH_IMAGES"
	// envRuntime is the OCI runtime, if not the engine's own choice.
	envRuntime = "SECUREBENCH_TEST_RUNTIME"
)

// Native makes an engine for one test and closes it at its end. The test closes
// its boxes and workspaces.
func Native(t testing.TB) *native.Engine {
	t.Helper()
	e := Connect(t)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Connect makes an engine as [Native] does, for several tests: the caller closes
// it.
func Connect(t testing.TB) *native.Engine {
	t.Helper()
	return connect(t, os.Getenv(envRuntime))
}

// Other makes an engine as [Native] does, with the runtime among runc and crun that the
// engine does not take by itself. Where it is not installed, the test is skipped.
func Other(t testing.TB) *native.Engine {
	t.Helper()
	e := Connect(t)
	taken := e.Info().Runtime
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	other := "runc"
	if taken == other {
		other = "crun"
	}
	if _, err := oci.FindRuntime(os.Getenv, other); errors.Is(err, oci.ErrNoRuntime) {
		t.Skip(err)
	}
	e = connect(t, other)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func connect(t testing.TB, runtime string) *native.Engine {
	t.Helper()
	if os.Getenv(envRequire) == "never" {
		t.Skipf("%s=never", envRequire)
	}
	program := dockertest.Helper(t) // building it can take long
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := native.New(ctx, native.Config{Images: Images(t), Helper: program, Runtime: runtime, Getenv: os.Getenv})
	if err != nil {
		dockertest.Missing(t, envRequire, fmt.Errorf("no native engine: %w", err))
	}
	return e
}

// Runs reports whether tests can have a native engine.
func Runs() bool {
	if os.Getenv(envRequire) == "never" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := native.New(ctx, native.Config{Runtime: os.Getenv(envRuntime), Getenv: os.Getenv})
	return err == nil && e.Close() == nil
}

// Images is the folder of the image store of tests.
func Images(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(envStore); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "securebench-test", "images")
}

// Image returns an image with python3 and sh: the one that
// SECUREBENCH_TEST_IMAGE names, or else one of the usual names.
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

func oneOf(t testing.TB, e sandbox.Engine, refs []string) sandbox.Image {
	t.Helper()
	var errs []error
	for _, ref := range refs {
		img, err := e.Image(t.Context(), ref)
		if errors.Is(err, sandbox.ErrImageMissing) {
			if err = take(t, ref); err == nil {
				img, err = e.Image(t.Context(), ref)
			}
		}
		if err == nil {
			return img
		}
		errs = append(errs, err)
	}
	dockertest.Missing(t, envRequire, fmt.Errorf("none of the images %s is there: %w", strings.Join(refs, ", "), errors.Join(errs...)))
	return sandbox.Image{}
}

// take imports an image from a local Docker engine.
func take(t testing.TB, ref string) error {
	t.Helper()
	s, err := imagestore.Open(Images(t))
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Import(t.Context(), imagestore.FromDocker+ref, imagestore.Addition{}, docker{})
	return err
}

// docker is the command line of a Docker engine.
type docker struct{}

// ExportImage implements [imagestore.Exporter].
func (docker) ExportImage(ctx context.Context, ref, file string) (string, error) {
	id, err := exec.CommandContext(ctx, "docker", "image", "inspect", "--format", "{{.Id}}", ref).Output()
	if err != nil {
		return "", fmt.Errorf("looking up %s: %w", ref, err)
	}
	if out, err := exec.CommandContext(ctx, "docker", "save", "--output", file, ref).CombinedOutput(); err != nil {
		return "", fmt.Errorf("exporting %s: %w: %s", ref, err, out)
	}
	return strings.TrimSpace(string(id)), nil
}
