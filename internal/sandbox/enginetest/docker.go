package enginetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/sandbox/docker"
)

const (
	envDocker = "SECUREBENCH_TEST_DOCKER"
	// envHelper is the path of a helper that was built before, for machines without Go.
	envHelper = "SECUREBENCH_TEST_HELPER"
)

// Docker connects to the engine, the one that DOCKER_HOST names, for one test
// and disconnects at its end. The test closes its boxes and workspaces.
func Docker(t testing.TB) *docker.Engine {
	t.Helper()
	return closed(t, connectDocker(t))
}

// connectDocker connects to the engine as [Docker] does, for several tests: the
// caller disconnects.
func connectDocker(t testing.TB) *docker.Engine {
	t.Helper()
	if os.Getenv(envDocker) == "never" {
		t.Skipf("%s=never", envDocker)
	}
	program := Helper(t) // building it can take long
	takeTurn(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := docker.New(ctx, docker.Config{Helper: program, Getenv: os.Getenv})
	if err != nil {
		missing(t, envDocker, fmt.Errorf("no Docker engine: %w", err))
	}
	return e
}

// missing skips a test for what it needs, or fails it where an environment variable
// requires that.
func missing(t testing.TB, variable string, err error) {
	t.Helper()
	if os.Getenv(variable) == "require" {
		t.Fatal(err)
	}
	t.Skipf("%v (set %s=require to make this a failure)", err, variable)
}

// Helper returns the path of the helper binary for tests. The first call in a
// process builds it.
func Helper(t testing.TB) string {
	t.Helper()
	path, err := builtHelper()
	if err != nil {
		t.Fatalf("building the helper: %v", err)
	}
	return path
}

// builtHelper builds once per process.
var builtHelper = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(envHelper); path != "" {
		return path, nil
	}
	return Built("helper", "build", "-buildvcs=false", "securebench/internal/sandbox/enginetest/helper")
})

// Built builds a static program with the go command into the user's cache, and returns
// its path. The name has the program's digest, so that a process of another checkout
// never puts its own in the place of one that is in use.
func Built(name, command string, args ...string) (path string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "securebench-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	built := filepath.Join(tmp, name)
	cmd := exec.Command("go", append([]string{command, "-trimpath", "-ldflags=-s -w", "-o", built}, args...)...) //nolint:gosec // the test's own words
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, fmt.Sprintf("%s-%x", name, sha256.Sum256(text)))
	if err := os.Link(built, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, nil
}

// Run names a run of a test. No other process has sandboxes that are labelled so,
// however many use the engine.
func Run(name string) string { return name + "-" + process }

var process = strings.ToLower(rand.Text()[:10])
