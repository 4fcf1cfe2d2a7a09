package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/owner"
)

// The number of sandboxes that TestNothingIsLeft makes.
const (
	envCycles = "SECUREBENCH_TEST_DOCKER_CYCLES"
	fewCycles = 15
)

// left counts what sandboxes could leave on the engine and in this process.
func left(t *testing.T, e *docker.Engine) map[string]int {
	t.Helper()
	owned, err := e.Owned(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	networks, err := engineAPI(t).NetworkList(t.Context(), client.NetworkListOptions{Filters: client.Filters{}.Add("label", "securebench.owner="+owner.Current().String())})
	if err != nil {
		t.Fatal(err)
	}
	descriptors, _ := filepath.Glob("/proc/self/fd/*")
	children, _ := filepath.Glob("/proc/self/task/*/children")
	n := 0
	for _, name := range children {
		if text, _ := os.ReadFile(name); len(text) > 0 {
			n++
		}
	}
	return map[string]int{"containers and volumes": len(owned), "networks": len(networks.Items), "descriptors": len(descriptors),
		"goroutines": runtime.NumGoroutine(), "threads with children": n}
}

// atOnce is how many sandboxes there are at a time: each waits for the engine.
const atOnce = 4

// everything makes a workspace and a sandbox, runs it, and removes both.
func everything(ctx context.Context, e sandbox.Engine, img sandbox.Image) (err error) {
	w, err := e.Workspace(ctx, sandbox.WorkspaceSpec{Owner: sandbox.Nobody, Disk: 1 << 20})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	b, err := e.Open(ctx, sandbox.Spec{Image: img, User: &sandbox.Nobody, Command: []string{"sh", "-c", "echo x > f"}, Home: "/home/x",
		Mounts: []sandbox.Mount{{Workspace: w, Target: "/workspace"}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(ctx)) }()
	out, err := b.Run(ctx, sandbox.Streams{})
	if err == nil && out.ExitCode != 0 {
		err = fmt.Errorf("got %+v", out)
	}
	return err
}

// TestNothingIsLeft: cycles leave nothing behind.
func TestNothingIsLeft(t *testing.T) {
	n := fewCycles
	if text := os.Getenv(envCycles); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", envCycles, err)
		}
	}
	e := enginetest.Docker(t)
	img := enginetest.Image(t, e)
	cycle := func() error { return everything(t.Context(), e, img) }
	if err := cycle(); err != nil { // what is made once is there now, such as connections
		t.Fatal(err)
	}
	before := left(t, e)
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			for j := i; j < n; j += atOnce {
				if err := cycle(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	after := left(t, e)
	t.Logf("%d cycles: %v before, %v after", n, before, after)
	for name, n := range after {
		// Connections to the engine are kept for the next calls, each with two goroutines.
		if slack := map[string]int{"descriptors": 3 * atOnce, "goroutines": 6 * atOnce}[name]; n > before[name]+slack {
			t.Errorf("%s: %d, %d before", name, n, before[name])
		}
	}
}
