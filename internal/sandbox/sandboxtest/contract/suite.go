// Package contract is the test suite that every sandbox engine must pass.
package contract

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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"securebench/internal/sandbox"
)

// Caps says how an engine is tested.
type Caps struct {
	// Image has sh, the usual small tools, folder and, for the isolation
	// part, python3. An engine of package sandboxtest needs the [Programs] and
	// [Root].
	Image sandbox.Image
	// Isolation also runs the attacks on the sandbox itself, which only an
	// engine that confines programs can withstand.
	Isolation bool
	// SharedDevices says that the devices of all sandboxes are the host's, so that a lock
	// on one shows.
	SharedDevices bool
	// Second says that the engine passes the suite with another runtime already, so that a
	// sample of the attacks will do.
	Second bool
}

// bound is how long anything that has to end soon may take, also on a machine
// with much else to do: what has to end by itself would take longer.
const bound = 2 * time.Minute

// Suite tests that an engine fulfils the contract of [sandbox.Engine]. Its
// parts run in parallel and may go on after Suite has returned: the caller
// looks for what they left in a cleanup.
func Suite(t *testing.T, e sandbox.Engine, caps Caps) {
	s := &suite{e, caps}
	parallel(t, "image missing", s.imageMissing)
	parallel(t, "exit", s.exit)
	parallel(t, "output", s.output)
	parallel(t, "environment", s.environment)
	parallel(t, "limits", s.limits)
	parallel(t, "cancel", s.cancel)
	parallel(t, "close", s.close)
	parallel(t, "run twice", s.runTwice)
	parallel(t, "stdin", s.stdin)
	parallel(t, "stdin blocks", s.stdinBlocks)
	parallel(t, "writer fails", s.writerFails)
	parallel(t, "opened early", s.openedEarly)
	parallel(t, "workspace", s.workspaces)
	parallel(t, "service", s.service)
	parallel(t, "mounts", s.mounts)
	parallel(t, "image folder", s.imageFolder)
	parallel(t, "root", s.root)
	parallel(t, "import", s.importImage)
	parallel(t, "home", s.home)
	parallel(t, "overlay", s.overlay)
	parallel(t, "freeze", s.freeze)
	if caps.Isolation {
		t.Run("isolation", s.isolation)
	}
}

// parallel runs a part beside the others: most of them wait for an engine.
func parallel(t *testing.T, name string, part func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		part(t)
	})
}

type suite struct {
	engine sandbox.Engine
	caps   Caps
}

// spec is a sandbox that runs a shell script.
func (s *suite) spec(script string) sandbox.Spec {
	return sandbox.Spec{Labels: sandbox.Labels{Run: "suite", Role: "box"}, Image: s.caps.Image,
		Command: []string{"sh", "-c", script}, User: &sandbox.Nobody,
		Env:    []string{"HOME=/tmp"},
		Limits: sandbox.Limits{Memory: 256 << 20, Disk: 16 << 20, Timeout: bound}}
}

// open opens a sandbox that the test's end closes.
func (s *suite) open(t *testing.T, spec sandbox.Spec) sandbox.Box {
	t.Helper()
	b, err := s.engine.Open(t.Context(), spec)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// notOpened checks that a box is not opened.
func (s *suite) notOpened(t *testing.T, spec sandbox.Spec, otherwise string) {
	t.Helper()
	if b, err := s.engine.Open(t.Context(), spec); err == nil {
		t.Error(otherwise)
		_ = b.Close(context.Background())
	}
}

// result is what a command did.
type result struct {
	sandbox.Outcome
	stdout, stderr string
}

func (s *suite) run(t *testing.T, spec sandbox.Spec) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	out, err := s.open(t, spec).Run(t.Context(), sandbox.Streams{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		t.Fatalf("Run(%q): %v", spec.Command, err)
	}
	if out.StdoutBytes != int64(stdout.Len()) || out.StderrBytes != int64(stderr.Len()) {
		t.Errorf("counted %d and %d bytes of output, delivered %d and %d",
			out.StdoutBytes, out.StderrBytes, stdout.Len(), stderr.Len())
	}
	return result{out, stdout.String(), stderr.String()}
}

func (s *suite) imageMissing(t *testing.T) {
	if _, err := s.engine.Image(t.Context(), "securebench-no-such-image:none"); !errors.Is(err, sandbox.ErrImageMissing) {
		t.Errorf("Image: got %v, want ErrImageMissing", err)
	}
}

// diffOutcome compares everything but the duration, which must be plausible.
func diffOutcome(t *testing.T, want, got sandbox.Outcome) {
	t.Helper()
	if got.Duration <= 0 || got.Duration > bound {
		t.Errorf("duration %v", got.Duration)
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(sandbox.Outcome{}, "Duration", "StdoutBytes", "StderrBytes")); d != "" {
		t.Errorf("outcome (-want +got):\n%s", d)
	}
}

func (s *suite) exit(t *testing.T) {
	for script, code := range map[string]int{scriptOK: 0, scriptExit3: 3} {
		t.Run(script, func(t *testing.T) {
			diffOutcome(t, sandbox.Outcome{End: sandbox.Exited, ExitCode: code}, s.run(t, s.spec(script)).Outcome)
		})
	}
	t.Run("no such command", func(t *testing.T) {
		spec := s.spec("")
		spec.Command = []string{"securebench-no-such-command"}
		got := s.run(t, spec)
		if got.End != sandbox.Exited || got.ExitCode != 127 {
			t.Errorf("got %+v, want exit code 127", got.Outcome)
		}
	})
}

func (s *suite) output(t *testing.T) {
	got := s.run(t, s.spec(scriptBoth))
	if got.stdout != "out\n" || got.stderr != "err\n" {
		t.Errorf("got %q and %q", got.stdout, got.stderr)
	}
}

func (s *suite) environment(t *testing.T) {
	spec := s.spec(scriptEnvironment)
	spec.Env = append(spec.Env, "GREETING=hello world")
	spec.Workdir = "/tmp"
	if got := s.run(t, spec); got.stdout != "/tmp hello world\n" {
		t.Errorf("got %q", got.stdout)
	}
}

func (s *suite) limits(t *testing.T) {
	t.Run("timeout", func(t *testing.T) {
		spec := s.spec(scriptForever)
		spec.Limits.Timeout = time.Second
		began := time.Now()
		got := s.run(t, spec)
		diffOutcome(t, sandbox.Outcome{End: sandbox.TimedOut, ExitCode: 124}, got.Outcome)
		if got.stdout != "ready\n" {
			t.Errorf("the output before the timeout is %q", got.stdout)
		}
		if took := time.Since(began); took > bound/2 {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("output", func(t *testing.T) {
		spec := s.spec(scriptFlood)
		spec.Limits.Output = 100_000
		got := s.run(t, spec)
		diffOutcome(t, sandbox.Outcome{End: sandbox.OutputLimit, ExitCode: 137}, got.Outcome)
		if n := len(got.stdout) + len(got.stderr); n != 100_000 {
			t.Errorf("delivered %d bytes", n)
		}
	})
	t.Run("output at the limit", func(t *testing.T) {
		spec := s.spec(scriptBoth)
		spec.Limits.Output = 8
		diffOutcome(t, sandbox.Outcome{End: sandbox.Exited}, s.run(t, spec).Outcome)
	})
}

func (s *suite) cancel(t *testing.T) {
	cause := errors.New("the operator interrupts")
	t.Run("before open", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if b, err := s.engine.Open(ctx, s.spec(scriptOK)); !errors.Is(err, cause) {
			t.Errorf("Open: got %v and %v, want the cause", b, err)
		}
	})
	t.Run("before run", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := s.open(t, s.spec(scriptOK)).Run(ctx, sandbox.Streams{}); !errors.Is(err, cause) {
			t.Errorf("Run: got %v, want the cause", err)
		}
	})
	t.Run("during run", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		started := newSignal()
		go func() { <-started.c; cancel(cause) }()
		began := time.Now()
		_, err := s.open(t, s.spec(scriptForever)).Run(ctx, sandbox.Streams{Stdout: started})
		if !errors.Is(err, cause) {
			t.Errorf("Run: got %v, want the cause", err)
		}
		if took := time.Since(began); took > bound/2 {
			t.Errorf("it took %v", took)
		}
	})
}

func (s *suite) close(t *testing.T) {
	t.Run("without run", func(t *testing.T) {
		b := s.open(t, s.spec(scriptOK))
		for range 3 {
			if err := b.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if _, err := b.Run(t.Context(), sandbox.Streams{}); err == nil {
			t.Error("a closed box runs")
		}
	})
	t.Run("with a dead context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.open(t, s.spec(scriptOK)).Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	t.Run("during run", func(t *testing.T) {
		b := s.open(t, s.spec(scriptForever))
		started := newSignal()
		done := make(chan error, 1)
		go func() {
			_, err := b.Run(context.Background(), sandbox.Streams{Stdout: started})
			done <- err
		}()
		<-started.c
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		select {
		case err := <-done:
			if !errors.Is(err, os.ErrClosed) {
				t.Errorf("Run: got %v, want os.ErrClosed", err)
			}
		case <-time.After(bound):
			t.Error("Run does not end")
		}
	})
}

// signal is a writer that reports its first write.
type signal struct {
	once sync.Once
	c    chan struct{}
}

func newSignal() *signal { return &signal{c: make(chan struct{})} }

func (s *signal) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.c) })
	return len(p), nil
}

func (s *suite) runTwice(t *testing.T) {
	b := s.open(t, s.spec(scriptOK))
	if _, err := b.Run(t.Context(), sandbox.Streams{}); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if _, err := b.Run(t.Context(), sandbox.Streams{}); err == nil {
		t.Error("a box runs twice")
	}
}

func (s *suite) stdin(t *testing.T) {
	spec := s.spec("")
	spec.Command, spec.Stdin = []string{"cat"}, true
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan sandbox.Outcome, 1)
	b := s.open(t, spec)
	go func() {
		out, err := b.Run(t.Context(), sandbox.Streams{Stdin: inR, Stdout: outW})
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		_ = outW.Close()
		done <- out
	}()
	buf := make([]byte, 5)
	for _, word := range []string{"one:1", "two:2", "three"} {
		if _, err := io.WriteString(inW, word); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(outR, buf); err != nil || string(buf) != word {
			t.Fatalf("sent %q, got %q and %v", word, buf, err)
		}
	}
	_ = inW.Close()
	if rest, err := io.ReadAll(outR); err != nil || len(rest) > 0 {
		t.Errorf("after the end of input: %q and %v", rest, err)
	}
	diffOutcome(t, sandbox.Outcome{End: sandbox.Exited}, <-done)
}

func (s *suite) stdinBlocks(t *testing.T) {
	spec := s.spec(scriptExit3)
	spec.Stdin = true
	r, w := io.Pipe()
	defer w.Close()
	began := time.Now()
	out, err := s.open(t, spec).Run(t.Context(), sandbox.Streams{Stdin: r})
	if err != nil || out.ExitCode != 3 {
		t.Errorf("Run: got %+v and %v", out, err)
	}
	if took := time.Since(began); took > bound/2 {
		t.Errorf("it took %v", took)
	}
}

// brokenWriter fails at the first write.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func (s *suite) writerFails(t *testing.T) {
	cause := errors.New("the disk of the caller is full")
	_, err := s.open(t, s.spec(scriptForever)).Run(t.Context(), sandbox.Streams{Stdout: brokenWriter{cause}})
	if !errors.Is(err, cause) {
		t.Errorf("Run: got %v, want the writer's error", err)
	}
}

func (s *suite) openedEarly(t *testing.T) {
	boxes := make([]sandbox.Box, 4)
	for i := range boxes {
		boxes[i] = s.open(t, s.spec(scriptBoth))
	}
	var wg sync.WaitGroup
	for _, b := range boxes {
		wg.Go(func() {
			var out strings.Builder
			if _, err := b.Run(t.Context(), sandbox.Streams{Stdout: &out}); err != nil || out.String() != "out\n" {
				t.Errorf("Run: got %q and %v", out.String(), err)
			}
		})
	}
	wg.Wait()
}
