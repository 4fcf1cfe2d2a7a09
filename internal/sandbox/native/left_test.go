package native_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/native"
)

// left counts what sandboxes could leave on the machine and in this process.
func left(t *testing.T, e *native.Engine) map[string]int {
	t.Helper()
	count := func(names []string, err error) int {
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	groups := 0
	err := filepath.WalkDir("/sys/fs/cgroup", func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(name, "/securebench/") && strings.Contains(name, mine) {
			groups++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := e.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]int{
		"descriptors": count(filepath.Glob("/proc/self/fd/*")), "groups": groups, "mounts": mounts,
		"goroutines": runtime.NumGoroutine(), "ended children": len(zombies(t)), "processes": len(sandboxed(t)),
		"threads' namespaces": namespaces(t),
	}
}

// sandboxed lists the processes on this machine that are in a group of this process.
func sandboxed(t *testing.T) (pids []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, _ := os.ReadFile(name); strings.Contains(string(text), "/securebench/") && strings.Contains(string(text), mine) {
			pids = append(pids, name)
		}
	}
	return pids
}

// namespaces counts those that the threads of this process and its descriptors keep.
func namespaces(t *testing.T) int {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"/proc/self/task/*/ns/*", "/proc/self/fd/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if to, err := os.Readlink(name); err == nil && strings.Contains(to, ":[") && !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "socket:") {
				found[to] = true
			}
		}
	}
	return len(found)
}

// envCycles is how many sandboxes TestNothingIsLeft makes.
const (
	envCycles = "SECUREBENCH_TEST_CYCLES"
	fewCycles = 50
)

func cycles(t *testing.T) int {
	t.Helper()
	text := os.Getenv(envCycles)
	if text == "" {
		return fewCycles
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q", envCycles, text)
	}
	return n
}

// mine is a part of the names of this process's groups.
var mine = fmt.Sprintf(".%d.", os.Getpid())

// TestNothingIsLeft: cycles leave nothing behind, whatever they use.
func TestNothingIsLeft(t *testing.T) {
	e := enginetest.Native(t)
	img := enginetest.Image(t, e)
	all := func() {
		t.Helper()
		w, err := e.Workspace(t.Context(), sandbox.WorkspaceSpec{Owner: sandbox.Nobody, Disk: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		spec := sandbox.Spec{Image: img, User: &sandbox.Nobody, Command: []string{"sh", "-c", "echo x > f"}, WritableRoot: true, Home: "/home/x",
			Mounts: []sandbox.Mount{{Workspace: w, Target: "/workspace"}}}
		b, err := e.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := b.Run(t.Context(), sandbox.Streams{}); err != nil || out.ExitCode != 0 {
			t.Errorf("got %+v, %v", out, err)
		}
		if _, err := b.(sandbox.RootReader).Changes(t.Context(), 100); err != nil {
			t.Error(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	all() // what is made once is there now
	before, n := left(t, e), cycles(t)
	for range n {
		all()
	}
	noMore(t, e, before)
	t.Logf("%d cycles: %v before, %v after", n, before, left(t, e))
}

// TestReap: the sandbox of a process that was killed is removed by the next one,
// with its mounts, and that of one that lives is not.
func TestReap(t *testing.T) {
	if os.Getenv("SECUREBENCH_TEST_VICTIM") != "" {
		victim(t)
		return
	}
	e := enginetest.Native(t)
	enginetest.Image(t, e)
	cmd := exec.Command(os.Args[0], "-test.run=^TestReap$", "-test.v")
	cmd.Env = append(os.Environ(), "SECUREBENCH_TEST_VICTIM=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(said.String(), "ready") {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("the other process ended: %s", said.String())
		}
	}
	// Others on this machine may have died meanwhile: the counts are of all of them.
	groups := groupsOf(t, cmd.Process.Pid)
	if n, err := e.Reap(t.Context()); err != nil || len(groups) == 0 || len(remaining(groups)) != len(groups) {
		t.Errorf("while it lives: %d are reaped, its own among them, %v", n, err)
	}
	orphans := processesOf(groups)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := e.Reap(t.Context()); err != nil { // others who reap on this machine may have been first
		t.Errorf("after its end: %v", err)
	}
	for _, pid := range orphans {
		_, _ = unix.Wait4(pid, nil, 0, nil) // this process adopts the first one
	}
	if there := remaining(groups); len(there) > 0 {
		t.Errorf("after its end there are %v", there)
	}
}

// remaining lists the control groups that are there, of some.
func remaining(groups []string) []string {
	return slices.DeleteFunc(slices.Clone(groups), func(name string) bool { _, err := os.Stat(name); return err != nil })
}

// groupsOf lists the control groups of a process's boxes. It must be running: its number
// is another one's afterwards.
func groupsOf(t *testing.T, pid int) (groups []string) {
	t.Helper()
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		found, err := filepath.Glob(fmt.Sprintf("%s/securebench/*.%d.*/*", hierarchy, pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				groups = append(groups, name)
			}
		}
	}
	return groups
}

// processesOf lists the processes in control groups.
func processesOf(groups []string) (pids []int) {
	for _, group := range groups {
		text, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		for _, line := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(line); err == nil && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// victim runs a box until it is killed.
func victim(t *testing.T) {
	e := enginetest.ConnectNative(t)
	b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Command: []string{"sh", "-c", "echo ready; sleep 600 & sleep 600"},
		Limits: sandbox.Limits{Timeout: 5 * time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = b.Run(context.Background(), sandbox.Streams{Stdout: os.Stdout})
}
