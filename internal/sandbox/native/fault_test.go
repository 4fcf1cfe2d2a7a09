package native_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/native/process"
	"securebench/internal/sandbox/native/require"
	"securebench/internal/sandbox/sandboxtest"
)

// envLong enables tests that wait for minutes.
const envLong = "SECUREBENCH_TEST_FAULTS"

// withRuntime makes an engine whose runtime is a script, which gets the real one in
// $RUNTIME and answers to --version as that does.
func withRuntime(t *testing.T, script string) *native.Engine {
	t.Helper()
	enginetest.Image(t, enginetest.Native(t)) // it skips the test where there is none
	runtime, err := require.FindRuntime(os.Getenv("SECUREBENCH_TEST_RUNTIME"), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "runc")
	text := "#!/bin/sh\nRUNTIME=" + runtime.Path + "\ncase \"$*\" in *--version*) exec $RUNTIME --version;; esac\n" + script + "\n"
	if err := sandboxtest.WriteProgram(file, []byte(text)); err != nil {
		t.Fatal(err)
	}
	e, err := native.New(t.Context(), native.Config{Images: enginetest.Images(t), Helper: enginetest.Helper(t), Runtime: file, Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// unharmed checks that nothing of a fault is left, and that an engine still works.
func unharmed(t *testing.T, e *native.Engine, before map[string]int) {
	t.Helper()
	works(t, e)
	noMore(t, e, before)
}

// works runs a sandbox.
func works(t *testing.T, e *native.Engine) {
	t.Helper()
	b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := b.Run(t.Context(), sandbox.Streams{}); err != nil || out.End != sandbox.Exited || out.ExitCode != 0 {
		t.Errorf("a sandbox: %+v, %v", out, err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// noMore waits until no more is left than before. What serves a sandbox in this process,
// and the process with which crun has made it, end shortly after it.
func noMore(t *testing.T, e *native.Engine, before map[string]int) {
	t.Helper()
	var after map[string]int
	awaittest.Soon(func() bool {
		process.ReapMakers()
		after = left(t, e)
		for name, n := range after {
			if n > before[name] {
				return false
			}
		}
		return true
	})
	for name, n := range after {
		if n > before[name] {
			t.Errorf("%s: %d, %d before", name, n, before[name])
		}
	}
}

// TestRuntimeKilled kills the runtime while it starts sandboxes: that is an error of
// the engine, never an outcome of the command, and nothing is left.
func TestRuntimeKilled(t *testing.T) {
	e := enginetest.Native(t)
	img := enginetest.Image(t, e)
	works(t, e) // what is made once is there now
	before, failed := left(t, e), 0
	for range 20 {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: []string{"sh", "-c", "exit 7"}})
		if err != nil {
			t.Fatal(err)
		}
		stop := killRuntimes(rand.N(15 * time.Millisecond))
		out, err := b.Run(t.Context(), sandbox.Streams{})
		stop()
		switch {
		case err == nil && (out.End != sandbox.Exited || out.ExitCode != 7):
			t.Errorf("got %+v", out)
		case err != nil && !strings.Contains(err.Error(), "the runtime failed (") &&
			!strings.Contains(err.Error(), "reading what the runtime started"): // the part of crun that makes it was killed
			t.Errorf("got %v", err)
		case err != nil:
			failed++
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if failed == 0 {
		t.Error("no runtime was killed in time")
	}
	unharmed(t, e, before)
	diffOwned(t, e)
}

// killRuntimes kills this process's children that are a runtime, a while after the
// first is seen, until stop is called.
func killRuntimes(wait time.Duration) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
			}
			if len(runtimes()) > 0 {
				time.Sleep(wait)
				for _, pid := range runtimes() { // one of those before may be a container now
					_ = unix.Kill(pid, unix.SIGKILL) // not reaped: no other process has its number
				}
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// runtimes lists the children that are a runtime, or the part of crun that has left its
// session. What has a session of its own is a container already.
func runtimes() (pids []int) {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		children, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, field := range strings.Fields(string(children)) {
			name, _ := os.ReadFile("/proc/" + field + "/comm")
			pid, err := strconv.Atoi(field)
			if err != nil || !slices.Contains([]string{"runc", "crun"}, strings.TrimSpace(string(name))) {
				continue
			}
			if session, err := unix.Getsid(pid); err == nil && session != pid {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// TestHungRuntime: a runtime that never returns holds up nobody who wants to end its
// sandbox, and goes with its helpers.
func TestHungRuntime(t *testing.T) {
	mark := fmt.Sprintf("7%d", os.Getpid()) // seconds; no other process waits for so many
	e := withRuntime(t, "sleep "+mark)
	img := enginetest.Image(t, e)
	cause := errors.New("enough")
	for _, closes := range []bool{false, true} {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: []string{"true"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		var ending sync.WaitGroup
		ending.Go(func() {
			for !sleeps(mark) {
				time.Sleep(time.Millisecond)
			}
			if closes {
				_ = b.Close(context.Background())
				return
			}
			cancel(cause)
		})
		out, err := b.Run(ctx, sandbox.Streams{})
		ending.Wait()
		cancel(nil)
		if !errors.Is(err, cause) && !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %+v, %v", out, err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if sleeps(mark) {
			t.Error("what the runtime started is left")
		}
	}
	diffOwned(t, e)
}

// TestHungRuntimeIsNoticed: nobody has to end it.
func TestHungRuntimeIsNoticed(t *testing.T) {
	if os.Getenv(envLong) == "" {
		t.Skipf("it takes minutes: set %s", envLong)
	}
	e := withRuntime(t, "sleep 100000")
	b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.Run(t.Context(), sandbox.Streams{})
	if err == nil || !strings.Contains(err.Error(), "the runtime takes too long to start a sandbox") {
		t.Errorf("got %+v, %v", out, err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	diffOwned(t, e)
}

// sleeps reports whether a process sleeps for so many seconds.
func sleeps(seconds string) bool {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if text, _ := os.ReadFile(name); string(text) == "sleep\x00"+seconds+"\x00" {
			return true
		}
	}
	return false
}

// TestRuntimeEndsWithParent: a runtime that is about to start a sandbox when its
// parent is killed does not start it, since the next process would not find it.
func TestRuntimeEndsWithParent(t *testing.T) {
	began := os.Getenv("SECUREBENCH_TEST_BEGAN")
	if began != "" {
		e := withRuntime(t, "echo $$ > "+began+".new && mv "+began+".new "+began+"; read never < "+began+".fifo; exec $RUNTIME \"$@\"")
		b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Command: []string{"true"}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = b.Run(t.Context(), sandbox.Streams{})
		return
	}
	enginetest.Image(t, enginetest.Native(t))
	began = filepath.Join(t.TempDir(), "began")
	err := unix.Mkfifo(began+".fifo", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRuntimeEndsWithParent$")
	cmd.Env = append(os.Environ(), "SECUREBENCH_TEST_BEGAN="+began)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	runtime := 0
	started := awaittest.Soon(func() bool {
		text, _ := os.ReadFile(began)
		runtime, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return runtime != 0
	})
	fd := -1
	if started {
		fd, err = unix.PidfdOpen(runtime, 0) // its number is another one's when it is reaped
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !started || err != nil {
		t.Fatalf("the runtime did not start: %v", err)
	}
	defer unix.Close(fd)
	ended := func() bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n == 1
	}
	if !awaittest.Soon(ended) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		t.Fatal("the runtime outlived its parent")
	}
	_, _ = unix.Wait4(runtime, nil, unix.WNOHANG, nil) // this process adopts orphans
}

// TestInitKilled: a sandbox whose init is killed from outside has no outcome.
func TestInitKilled(t *testing.T) {
	e := enginetest.Native(t)
	box, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Init: true, User: &sandbox.Nobody})
	if err != nil {
		t.Fatal(err)
	}
	c, err := initproc.Open(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Run(t.Context(), initproc.Command{Argv: []string{"/usr/bin/env", "sh", "-c", "echo ready; sleep 600"}, Inherit: true,
		User: sandbox.Nobody, Timeout: time.Hour, Stdout: &started{f: func() { _ = unix.Kill(native.FirstProcess(box), unix.SIGKILL) }}})
	if !errors.Is(err, initproc.ErrLost) {
		t.Errorf("got %+v, %v", out, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	diffOwned(t, e)
}
