package bare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"securebench/internal/sandbox/oci"
	"securebench/internal/sandbox/sandboxtest"
)

// TestMain lets the test's own binary stand for the programs of an image.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "true":
		os.Exit(0)
	case "writes":
		if os.WriteFile("candidate", nil, 0o600) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case "fails":
		os.Exit(3)
	case "waits":
		time.Sleep(time.Hour)
	case "cat":
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// open returns the floor over an image with the programs above.
func open(t *testing.T, name string) *Native {
	t.Helper()
	missing := func(format string, args ...any) {
		if os.Getenv("SECUREBENCH_TEST_NATIVE") == "require" {
			t.Fatalf(format, args...)
		}
		t.Skipf("SKIPPED: "+format, args...)
	}
	if os.Getenv("SECUREBENCH_TEST_NATIVE") == "never" {
		t.Skip("SKIPPED: SECUREBENCH_TEST_NATIVE=never")
	}
	r, err := oci.FindRuntime(os.Getenv, name)
	if _, other := oci.FindRuntime(os.Getenv, "crun", "runc"); errors.Is(err, oci.ErrNoRuntime) && other == nil {
		t.Skipf("SKIPPED: %v", err)
	}
	if err != nil || os.Geteuid() != 0 {
		missing("the bare runtime needs root and an OCI runtime: %v", err)
	}
	layer := t.TempDir()
	for dir := layer; dir != "/"; dir = filepath.Dir(dir) { // the sandbox's root must be able to pass
		if strings.HasPrefix(dir, filepath.Clean(os.TempDir())+"/") {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin", "proc", "sys", "dev", "tmp", "workspace"} {
		if err := os.Mkdir(filepath.Join(layer, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"true", "writes", "fails", "waits", "cat"} {
		if err := sandboxtest.WriteProgram(filepath.Join(layer, "bin", name), self); err != nil {
			t.Fatal(err)
		}
	}
	f, err := NewNative(r, []string{layer}, []string{"PATH=/bin"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.Cycle(t.Context()); err != nil {
		missing("the runtime cannot run this test's binary, which must be static (CGO_ENABLED=0): %v", err)
	}
	return f
}

// TestFloor: what succeeds is no error, what fails is one, and nothing is left.
func TestFloor(t *testing.T) {
	for _, name := range []string{"crun", "runc"} {
		t.Run(name, func(t *testing.T) { testFloor(t, open(t, name)) })
	}
}

func testFloor(t *testing.T, f *Native) {
	t.Helper()
	if !f.runtime.Knows(oci.Box{}) {
		t.Error("it has learnt nothing from its first container")
	}
	if err := f.Task(t.Context(), []string{"writes"}, []string{"true"}); err != nil {
		t.Error(err)
	}
	if err := f.Task(t.Context(), []string{"true"}, []string{"writes"}); err == nil {
		t.Error("the second command wrote to a root that is read-only")
	}
	if err := f.Task(t.Context(), []string{"fails"}); err == nil {
		t.Error("a command that fails is no error")
	}
	for range 3 { // before, while and after the runtime makes the container
		ctx, stop := context.WithCancel(t.Context())
		go func() { runtime.Gosched(); stop() }()
		if err := f.Task(ctx, []string{"waits"}); !errors.Is(err, context.Canceled) {
			t.Errorf("an interruption: %v", err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Task(ctx, []string{"waits"}) }()
	for f.containers(t) == 0 { // until the runtime has begun
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("an interruption: %v", err)
	}
	if groups, err := filepath.Glob("/sys/fs/cgroup/*/securebench-floor-" + strconv.Itoa(os.Getpid()) + "-*"); err != nil || len(groups) > 0 {
		t.Errorf("control groups are left: %v, %v", groups, err)
	}
	if n := f.containers(t); n > 0 {
		t.Errorf("%d containers are left", n)
	}
	left := f.list(t, ".")
	if len(left) > 3 || !strings.Contains(fmt.Sprint(left), "l0") { // the layer, the runtime's folder, and its program's
		t.Errorf("left: %v", left)
	}
}

// containers counts those that the runtime knows.
func (f *Native) containers(t *testing.T) int { return len(f.list(t, "state")) }

// list lists a folder of the namespace.
func (f *Native) list(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := f.ns.Do(func() error {
		d, err := os.Open(filepath.Join(f.dir, dir))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer d.Close()
		names, err = d.Readdirnames(-1)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
