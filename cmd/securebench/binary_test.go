package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"securebench/internal/sandbox/enginetest"
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

// ownKeys lets commands that run in this process keep their keys where those of the binary
// do. It is for all of them, so that such tests can be parallel.
func ownKeys(t *testing.T) {
	t.Helper()
	path, err := binary()
	if err == nil {
		err = os.Setenv("SECUREBENCH_KEYS", keysBeside(path))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func keysBeside(program string) string { return filepath.Join(filepath.Dir(program), "keys") }

// outcome is the result of running the binary.
type outcome struct {
	code           int
	stdout, stderr string
	pid            int
}

// securebench runs the shipped binary.
func securebench(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	return runs(t, "", env, args...)
}

// runs runs a program in the place of the shipped binary, or that for "".
func runs(t *testing.T, program string, env []string, args ...string) outcome {
	t.Helper()
	cmd := command(t, env, args...)
	if program != "" {
		cmd.Path = program
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), cmd.Process.Pid}
}

func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, onEngine(engineOf(t), args)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(os.Environ(), "SECUREBENCH_KEYS="+keysBeside(path),
		"SECUREBENCH_IMAGES="+enginetest.Images(t)), env...)
	return cmd
}

// onEngine adds an engine to the arguments of a command that opens one.
func onEngine(engine string, args []string) []string {
	opens := len(args) > 0 && slices.Contains([]string{"run", "validate", "reverify", "worker"}, args[0])
	named := slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--engine") })
	if !opens || named {
		return args
	}
	return append(slices.Clone(args), "--engine="+engine)
}

// dockerTests are the tests that look at what Docker has, by name.
var dockerTests sync.Map // commands are made far from where a test says what it needs

// engineOf is the engine of a test, or of the one that it is a part of.
func engineOf(t *testing.T) string {
	t.Helper()
	for name := t.Name(); ; {
		if _, ok := dockerTests.Load(name); ok {
			return "docker"
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return enginetest.Name()
		}
		name = name[:i]
	}
}

// needDocker skips or fails without a Docker engine and an image, and makes the
// commands of a test use it.
func needDocker(t *testing.T) (image string) {
	t.Helper()
	dockerTests.Store(t.Name(), true)
	e := enginetest.Docker(t)
	return enginetest.Image(t, e).Ref
}

// needEngine skips or fails without an image on the engine of tests.
func needEngine(t *testing.T) (image string) {
	t.Helper()
	e := enginetest.Open(t)
	return enginetest.Image(t, e).Ref
}
