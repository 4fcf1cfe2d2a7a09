package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"securebench/internal/sandbox/dockertest"
)

// binary builds the program once, in the form that users get.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "securebench-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "securebench")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the binary: %w: %s", err, out)
	}
	return path, nil
})

// outcome is the result of running the binary.
type outcome struct {
	code           int
	stdout, stderr string
}

// securebench runs the shipped binary.
func securebench(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	cmd := command(t, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(os.Environ(), "SECUREBENCH_KEYS="+filepath.Join(filepath.Dir(path), "keys")), env...)
	return cmd
}

// needDocker skips or fails without an engine and an image.
func needDocker(t *testing.T) (image string) {
	t.Helper()
	e := dockertest.Docker(t)
	return dockertest.Image(t, e).Ref
}
