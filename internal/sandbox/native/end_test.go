package native_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/native"
)

// started is a writer that calls f once something was written.
type started struct {
	once sync.Once
	f    func()
}

func (s *started) Write(p []byte) (int, error) {
	s.once.Do(s.f)
	return len(p), nil
}

// runWith runs a box to its end, and calls f when it has written something.
func runWith(t *testing.T, e sandbox.Engine, spec sandbox.Spec, f func(b sandbox.Box)) (sandbox.Outcome, error) {
	t.Helper()
	b, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.Run(t.Context(), sandbox.Streams{Stdout: &started{f: func() { f(b) }}})
	if closed := b.Close(context.WithoutCancel(t.Context())); closed != nil {
		t.Error(closed)
	}
	return out, err
}

// TestDisturbed: what is done to a sandbox from outside says nothing about its
// command.
func TestDisturbed(t *testing.T) {
	e := enginetest.Native(t)
	forever := sandbox.Spec{Image: enginetest.Image(t, e), User: &sandbox.Nobody, Command: []string{"sh", "-c", "sleep 0.3; echo ready; sleep 600"}}
	t.Run("killed", func(t *testing.T) {
		out, err := runWith(t, e, forever, func(b sandbox.Box) { _ = unix.Kill(native.FirstProcess(b), unix.SIGKILL) })
		if !errors.Is(err, sandbox.ErrDisturbed) {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("our init, killed at once", func(t *testing.T) {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: forever.Image, Init: true})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for native.FirstProcess(b) == 0 {
				time.Sleep(time.Millisecond)
			}
			_ = unix.Kill(native.FirstProcess(b), unix.SIGKILL)
		}()
		stdin, in := io.Pipe() // it waits for a message
		out, err := b.Run(t.Context(), sandbox.Streams{Stdin: stdin})
		if !errors.Is(err, sandbox.ErrDisturbed) {
			t.Errorf("got %+v, %v", out, err)
		}
		if err := errors.Join(in.Close(), b.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		spec := forever
		spec.Limits.Timeout = 2 * time.Second
		out, err := runWith(t, e, spec, func(b sandbox.Box) { _ = unix.Kill(native.FirstProcess(b), unix.SIGSTOP) })
		if !errors.Is(err, sandbox.ErrDisturbed) {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("frozen", func(t *testing.T) {
		spec := forever
		spec.Limits.Timeout = 2 * time.Second
		out, err := runWith(t, e, spec, func(b sandbox.Box) {
			if err := native.GroupOf(b).Freeze(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if !errors.Is(err, sandbox.ErrDisturbed) {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("stopped for a while", func(t *testing.T) {
		spec := forever
		spec.Command = []string{"sh", "-c", "echo ready; sleep 1; exit 3"}
		out, err := runWith(t, e, spec, func(b sandbox.Box) {
			pid := native.FirstProcess(b)
			_ = unix.Kill(pid, unix.SIGSTOP)
			_ = unix.Kill(pid, unix.SIGCONT)
		})
		if err != nil || out.ExitCode != 3 {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	diffOwned(t, e)
}

// TestNotDisturbed: a command cannot pass off its end as the work of another.
func TestNotDisturbed(t *testing.T) {
	e := enginetest.Native(t)
	img := enginetest.Image(t, e)
	for name, c := range map[string]struct {
		code    string
		tracing bool
		want    int
		or      int // what it can end with instead
	}{
		// The kernel kills a process for its limit on time, and for its parent's end.
		"limit on time": {code: "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass", want: 137},
		// The parent is the runtime, which ends about when the command asks for this.
		"end of the parent": {code: "import ctypes, time\nctypes.CDLL(None).prctl(1, 9)\n" +
			"time.sleep(1)", want: 0, or: 137},
		// A debugger can kill what the processes of a sandbox otherwise cannot.
		"debugger": {tracing: true, want: 137, code: `
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
if os.fork() == 0:
    time.sleep(1)
    libc.ptrace(16, 1, 0, 0)  # PTRACE_ATTACH
    time.sleep(0.5)
    libc.ptrace(17, 1, 0, 9)  # PTRACE_DETACH with SIGKILL
    os._exit(0)
libc.prctl(0x59616d61, -1, 0, 0, 0)  # any process may
time.sleep(600)`},
		"a fault": {code: "import ctypes\nctypes.string_at(0)", want: 139},
		"itself":  {code: "import os\nfor s in (9, 19, 15, 6): os.kill(1, s)", want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sandbox.Spec{Image: img, User: &sandbox.Nobody, Command: []string{"python3", "-I", "-S", "-c", c.code}, Tracing: c.tracing,
				Limits: sandbox.Limits{Timeout: time.Minute}}
			b, err := e.Open(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			out, err := b.Run(t.Context(), sandbox.Streams{Stderr: &stderr})
			expected := out.ExitCode == c.want || c.or != 0 && out.ExitCode == c.or
			if err = errors.Join(err, b.Close(t.Context())); err != nil || out.End != sandbox.Exited || !expected {
				t.Errorf("got %+v, %v, %s; want exit code %d", out, err, &stderr, c.want)
			}
		})
	}
	diffOwned(t, e)
}

// TestCommandThatCannotStart has the exit codes of a shell.
func TestCommandThatCannotStart(t *testing.T) {
	e := enginetest.Native(t)
	img := enginetest.Image(t, e)
	for command, want := range map[string]int{"/etc/passwd": 126, "/etc": 126, "/no/such": 127, "nosuch": 127} {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: []string{command}})
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		out, err := b.Run(t.Context(), sandbox.Streams{Stderr: &stderr})
		if err != nil || out.End != sandbox.Exited || out.ExitCode != want || out.StderrBytes != int64(stderr.Len()) {
			t.Errorf("%s: got %+v, %v; want exit code %d", command, out, err, want)
		}
		if !strings.HasPrefix(stderr.String(), "sandbox: command ") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: said %q", command, stderr.String())
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	diffOwned(t, e)
}

// TestEndedAtAnyPoint ends boxes at many points of their start: none is left, and
// the error is the caller's.
func TestEndedAtAnyPoint(t *testing.T) {
	e := enginetest.Native(t)
	img := enginetest.Image(t, e)
	cause := errors.New("enough")
	for i := range 30 {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: []string{"sleep", "600"}, Limits: sandbox.Limits{Timeout: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		wait := time.Duration(i) * time.Millisecond
		if i%2 == 0 {
			time.AfterFunc(wait, func() { cancel(cause) })
		} else {
			time.AfterFunc(wait, func() { _ = b.Close(context.Background()) })
		}
		out, err := b.Run(ctx, sandbox.Streams{})
		if !errors.Is(err, cause) && !errors.Is(err, os.ErrClosed) {
			t.Errorf("after %v: got %+v, %v", wait, out, err)
		}
		cancel(nil)
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	diffOwned(t, e)
	if children := zombies(t); len(children) > 0 {
		t.Errorf("processes are left: %q", children)
	}
}

// zombies lists the children of this process that have ended and were not reaped.
func zombies(t *testing.T) (names []string) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		children, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, pid := range strings.Fields(string(children)) {
			stat, _ := os.ReadFile("/proc/" + pid + "/stat")
			if strings.Contains(string(stat), ") Z ") {
				names = append(names, string(stat[:min(len(stat), 40)]))
			}
		}
	}
	return names
}

// TestOutputIsPassedOn: a process that has the output of another sandbox does not
// keep that from ending.
func TestOutputIsPassedOn(t *testing.T) {
	e := enginetest.Native(t)
	img := enginetest.Image(t, e)
	python := func(code string) sandbox.Spec {
		return sandbox.Spec{Image: img, User: &sandbox.Nobody, Command: []string{"python3", "-I", "-S", "-c", code}, Limits: sandbox.Limits{Timeout: time.Minute}}
	}
	keeper, err := e.Open(t.Context(), python(`
import socket, time
s = socket.socket(socket.AF_UNIX); s.bind("\0keep"); s.listen()
print("ready", flush=True)
c, _ = s.accept()
_, kept, _, _ = socket.recv_fds(c, 10, 10)
c.send(b"x")
time.sleep(600)`))
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_, _ = keeper.Run(ctx, sandbox.Streams{Stdout: &started{f: func() { close(ready) }}})
	}()
	<-ready
	spec := python(`
import socket
s = socket.socket(socket.AF_UNIX); s.connect("\0keep")
socket.send_fds(s, [b"x"], [1, 2])
s.recv(1)
print("y" * 100000)`)
	spec.Peer = keeper
	b, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	out, err := b.Run(t.Context(), sandbox.Streams{Stdout: io.MultiWriter(&stdout)})
	if err != nil || out.ExitCode != 0 || stdout.Len() != 100_001 {
		t.Errorf("got %+v, %v, %d bytes", out, err, stdout.Len())
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	<-ended
	if err := keeper.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
