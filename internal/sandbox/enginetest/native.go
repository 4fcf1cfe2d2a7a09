package enginetest

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

	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/oci"
)

const (
	envNative = "SECUREBENCH_TEST_NATIVE"
	envImage  = "SECUREBENCH_TEST_IMAGE"
	envStore  = "SECUREBENCH_IMAGES"
	// envRuntime is the OCI runtime, if not the engine's own choice.
	envRuntime = "SECUREBENCH_TEST_RUNTIME"
)

// Native makes an engine for one test and closes it at its end. The test closes
// its boxes and workspaces.
func Native(t testing.TB) *native.Engine {
	t.Helper()
	return closed(t, ConnectNative(t))
}

// ConnectNative makes an engine as [Native] does, for several tests: the caller closes
// it.
func ConnectNative(t testing.TB) *native.Engine {
	t.Helper()
	return openNative(t, os.Getenv(envRuntime))
}

// Other makes an engine as [Native] does, with the runtime among runc and crun that the
// engine does not take by itself. Where it is not installed, the test is skipped.
func Other(t testing.TB) *native.Engine {
	t.Helper()
	e := ConnectNative(t)
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
	return closed(t, openNative(t, other))
}

func openNative(t testing.TB, runtime string) *native.Engine {
	t.Helper()
	if os.Getenv(envNative) == "never" {
		t.Skipf("%s=never", envNative)
	}
	program := Helper(t) // building it can take long
	takeTurn(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := native.New(ctx, native.Config{Images: Images(t), Helper: program, Runtime: runtime, Getenv: os.Getenv})
	if err != nil {
		missing(t, envNative, fmt.Errorf("no native engine: %w", err))
	}
	return e
}

// nativeRuns reports whether tests can have a native engine.
func nativeRuns() bool {
	if os.Getenv(envNative) == "never" {
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

// take imports an image from a local Docker engine.
func take(t testing.TB, ref string) error {
	t.Helper()
	s, err := imagestore.Open(Images(t))
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Import(t.Context(), imagestore.FromDocker+ref, imagestore.Addition{}, dockerCommand{})
	return err
}

// dockerCommand is the command line of a Docker engine.
type dockerCommand struct{}

// ExportImage implements [imagestore.Exporter].
func (dockerCommand) ExportImage(ctx context.Context, ref, file string) (string, error) {
	id, err := exec.CommandContext(ctx, "docker", "image", "inspect", "--format", "{{.Id}}", ref).Output()
	if err != nil {
		return "", fmt.Errorf("looking up %s: %w", ref, err)
	}
	if out, err := exec.CommandContext(ctx, "docker", "save", "--output", file, ref).CombinedOutput(); err != nil {
		return "", fmt.Errorf("exporting %s: %w: %s", ref, err, out)
	}
	return strings.TrimSpace(string(id)), nil
}
