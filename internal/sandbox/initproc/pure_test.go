package initproc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/memtest"
	"securebench/internal/sandbox"
)

// connect returns a client of an init that runs in a process of its own without any
// protection: it reaps all children that it has, and here they would be others' too.
func connect(t testing.TB) *Client {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "client"), os.NewFile(uintptr(fds[1]), "init")
	conn, err := net.FileConn(ours)
	if err := errors.Join(err, ours.Close()); err != nil {
		t.Fatal(err)
	}
	served := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "bare-init")
	served.ExtraFiles, served.Stderr = []*os.File{theirs}, os.Stderr
	if err := errors.Join(served.Start(), theirs.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := newClient(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(context.Background()), served.Wait()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// bareInit serves what connect has given it.
func bareInit() error {
	p := newProcesses()
	go p.reap()
	conn := os.NewFile(3, "client")
	return ServeRequests(conn, conn, p.handler())
}

// hung is longer than anything takes that ends on its own, on a machine with
// much else to do.
const hung = time.Minute

func shell(script string) Command {
	return Command{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
		User: sandbox.User{UID: os.Getuid(), GID: os.Getgid()}, Timeout: hung}
}

func TestRunCarriesStreamsAndEnds(t *testing.T) {
	c := connect(t)
	for _, tt := range []struct {
		script, stdin, stdout, stderr string
		code, signal                  int
	}{
		{script: "true"},
		{script: "printf out; printf err >&2; exit 3", stdout: "out", stderr: "err", code: 3},
		{script: "cat", stdin: "hello", stdout: "hello"},
		{script: "kill -9 $$", code: 137, signal: 9},
		{script: "printf whole; sleep 100 &", stdout: "whole"}, // a descendant keeps the pipe
		{script: "exec <&-; printf done", stdin: strings.Repeat("x", 1<<20), stdout: "done"},
		{script: "pwd; env", stdout: "/\nPWD=/\nPATH=/usr/bin:/bin\n"},
	} {
		var out, errs bytes.Buffer
		cmd := shell(tt.script)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(tt.stdin), &out, &errs
		res, err := c.Run(t.Context(), cmd)
		if err != nil {
			t.Fatalf("%s: %v", tt.script, err)
		}
		if res.End != sandbox.Exited || res.ExitCode != tt.code || res.Signal != tt.signal {
			t.Errorf("%s: %+v", tt.script, res)
		}
		if tt.script == "pwd; env" {
			if !strings.Contains(out.String(), "PATH=/usr/bin:/bin\n") || strings.Count(out.String(), "\n") > 5 {
				t.Errorf("environment %q", &out)
			}
			continue
		}
		if out.String() != tt.stdout || errs.String() != tt.stderr {
			t.Errorf("%s: got %q and %q", tt.script, &out, &errs)
		}
	}
}

func TestRunReportsWhatCannotStart(t *testing.T) {
	c := connect(t)
	for _, tt := range []struct {
		change func(*Command)
		errno  syscall.Errno
		code   int
	}{
		{func(c *Command) { c.Argv = []string{"no-such-program"} }, syscall.ENOENT, 127},
		{func(c *Command) { c.Argv = []string{"/etc/passwd"} }, syscall.EACCES, 126},
		{func(c *Command) { c.Dir = "/no/such/dir" }, syscall.ENOENT, 127},
		{func(c *Command) { c.Argv[2] = "a\x00b" }, syscall.EINVAL, 126},
	} {
		cmd := shell("true")
		tt.change(&cmd)
		res, err := c.Run(t.Context(), cmd)
		if err != nil || res.End != NotStarted || res.Errno != tt.errno || res.ExitCode != tt.code {
			t.Errorf("%q in %q: %+v, %v", cmd.Argv, cmd.Dir, res, err)
		}
	}
	for name, change := range map[string]func(*Command){
		"another user":       func(c *Command) { c.User.UID++ },
		"no command":         func(c *Command) { c.Argv = nil },
		"relative directory": func(c *Command) { c.Dir = "tmp" },
		"large arguments":    func(c *Command) { c.Env = []string{strings.Repeat("x", maxStart)} },
		"negative limit":     func(c *Command) { c.Output = -1 },
	} {
		cmd := shell("true")
		change(&cmd)
		if res, err := c.Run(t.Context(), cmd); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	if _, err := c.Run(t.Context(), shell("true")); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestRunLimitsOutput(t *testing.T) {
	c := connect(t)
	var out bytes.Buffer
	cmd := shell("head -c 3000000 /dev/zero; head -c 10 /dev/zero >&2")
	cmd.Stdout, cmd.Stderr, cmd.Output = &out, io.Discard, 1000
	res, err := c.Run(t.Context(), cmd)
	want := Output{Bytes: 1000, Dropped: 2999000}
	if err != nil || res.Stdout != want || res.Stderr != (Output{Bytes: 10}) || out.Len() != 1000 {
		t.Errorf("%+v, %v, %d bytes", res, err, out.Len())
	}
}

// TestBytesArriveWhole sends 64 MiB in and out.
func TestBytesArriveWhole(t *testing.T) {
	c := connect(t)
	checkWhole(t, c, shell("cat"))
}

func checkWhole(t *testing.T, c *Client, cmd Command) {
	t.Helper()
	const size = 64 << 20
	in, out := sha256.New(), sha256.New()
	src := rand.NewChaCha8([32]byte{1})
	cmd.Stdin, cmd.Stdout, cmd.Output = io.TeeReader(io.LimitReader(src, size), in), out, size
	cmd.Timeout = 5 * time.Minute
	began := time.Now()
	res, err := c.Run(t.Context(), cmd)
	if err != nil || res.ExitCode != 0 || res.Stdout != (Output{Bytes: size}) {
		t.Fatalf("%+v, %v", res, err)
	}
	if !bytes.Equal(in.Sum(nil), out.Sum(nil)) {
		t.Error("the bytes have changed")
	}
	t.Logf("%.0f MiB/s each way", size/1048576/time.Since(began).Seconds())
}

// blocked is a writer that reports its first write and takes nothing until it
// is released.
type blocked struct {
	reached func()
	release chan struct{}
}

func (b blocked) Write(p []byte) (int, error) {
	b.reached()
	<-b.release
	return len(p), nil
}

// TestFloodBlocksNoOther runs commands beside as many as can be that flood
// writers that take nothing, and do not read what is sent without end: the
// commands end while the floods are held up. Both ends are in this process, so
// its memory is that of both.
func TestFloodBlocksNoOther(t *testing.T) {
	c := connect(t)
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var floods, held sync.WaitGroup
	held.Add(maxCommands - 1)
	for range maxCommands - 1 {
		floods.Go(func() {
			cmd := shell("cat /dev/zero & sleep 1000")
			cmd.Timeout = 0
			reached := sync.OnceFunc(held.Done)
			defer reached() // a flood that has failed is not waited for
			cmd.Stdin, cmd.Stdout, cmd.Stderr = zeros{}, blocked{reached, release}, blocked{reached, release}
			if res, err := c.Run(ctx, cmd); !errors.Is(err, context.Canceled) {
				t.Errorf("flood: %+v, %v", res, err)
			}
		})
	}
	held.Wait()
	time.Sleep(500 * time.Millisecond) // what is on the way to the writers piles up
	for i := range 10 {
		var out bytes.Buffer
		cmd := shell("cat")
		text := strconv.Itoa(i)
		cmd.Stdin, cmd.Stdout = strings.NewReader(text), &out
		if res, err := c.Run(t.Context(), cmd); err != nil || res.End != sandbox.Exited || out.String() != text {
			t.Fatalf("beside floods: %q, %+v, %v", &out, res, err)
		}
	}
	if kept := memtest.Kept(); kept > 96<<20 {
		t.Errorf("floods take %d MiB", kept>>20)
	}
	close(release)
	cancel()
	floods.Wait()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestRunEndsWithItsContext(t *testing.T) {
	c := connect(t)
	cause := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
	began := time.Now()
	_, err := c.Run(ctx, shell("sleep 100 & sleep 100"))
	if !errors.Is(err, cause) || time.Since(began) > hung/2 { // and not with the command's time
		t.Errorf("%v after %v", err, time.Since(began))
	}
	cmd := shell("setsid sh -c 'sleep 100' & wait")
	cmd.Timeout = 200 * time.Millisecond
	res, err := c.Run(t.Context(), cmd)
	if err != nil || res.End != sandbox.TimedOut || res.ExitCode != 124 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestRunReportsTheCallersErrors(t *testing.T) {
	c := connect(t)
	cmd := shell("cat; sleep 100")
	cmd.Stdin = io.MultiReader(strings.NewReader("x"), failing{})
	if _, err := c.Run(t.Context(), cmd); !errors.Is(err, errFailing) {
		t.Errorf("reader: %v", err)
	}
	cmd = shell("echo x; sleep 100")
	cmd.Stdout = failing{}
	if _, err := c.Run(t.Context(), cmd); !errors.Is(err, errFailing) {
		t.Errorf("writer: %v", err)
	}
}

var errFailing = errors.New("broken disk")

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errFailing }
func (failing) Write([]byte) (int, error) { return 0, errFailing }

func TestCommandsRunSideBySide(t *testing.T) {
	c := connect(t)
	var all sync.WaitGroup
	for i := range 3 * maxCommands {
		all.Go(func() {
			var out bytes.Buffer
			cmd := shell("cat; exit " + strconv.Itoa(i))
			cmd.Stdin, cmd.Stdout = strings.NewReader(strconv.Itoa(i)), &out
			if res, err := c.Run(t.Context(), cmd); err != nil || res.ExitCode != i || out.String() != strconv.Itoa(i) {
				t.Errorf("command %d: %+v, %v, %q", i, res, err, &out)
			}
		})
	}
	all.Wait()
}

// TestInheritedVariables checks that a command gets init's own variables only
// if it asks for them, and that its own win.
func TestInheritedVariables(t *testing.T) {
	t.Setenv("INIT_HAS", "its value")
	t.Setenv("BOTH_HAVE", "init's")
	c := connect(t)
	for inherit, want := range map[bool]string{false: "- the command's", true: "its value the command's"} {
		cmd := shell(`echo "${INIT_HAS:--} $BOTH_HAVE"`)
		cmd.Inherit, cmd.Env = inherit, append(cmd.Env, "BOTH_HAVE=the first", "BOTH_HAVE=the command's")
		var out bytes.Buffer
		cmd.Stdout = &out
		if res, err := c.Run(t.Context(), cmd); err != nil || res.ExitCode != 0 || strings.TrimSpace(out.String()) != want {
			t.Errorf("inherit %t: got %q, %+v, %v", inherit, out.String(), res, err)
		}
	}
}
