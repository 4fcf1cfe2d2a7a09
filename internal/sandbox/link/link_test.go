package link

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"securebench/internal/frame"
	"securebench/internal/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is what a test runs in a sandbox.
type program func(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error)

// Run runs the program behind its first frame.
func (p program) Run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	first, err := frame.Read(s.Stdin, nil, 100)
	if err != nil || string(first) != "program" {
		return sandbox.Outcome{}, errors.New("the first frame is not the program")
	}
	return p(ctx, s)
}

func (program) Close(context.Context) error { return nil }

// engine opens one box.
type engine struct {
	sandbox.Engine
	box sandbox.Box
}

func (e engine) Open(context.Context, sandbox.Spec) (sandbox.Box, error) {
	if e.box == nil {
		return nil, errors.New("no box")
	}
	return e.box, nil
}

func start(t *testing.T, p program) *Link {
	t.Helper()
	l, err := Start(t.Context(), t.Context(), engine{box: p}, sandbox.Spec{},
		Options{Program: []byte("program"), MaxFrame: 100, Stderr: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

var exited = sandbox.Outcome{End: sandbox.Exited}

// write sends a frame.
func write(s sandbox.Streams, content []byte) error {
	_, err := s.Stdout.Write(frame.Append(nil, content))
	return err
}

// echo answers each frame with itself.
func echo(_ context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	for {
		content, err := frame.Read(s.Stdin, nil, 100)
		if err != nil {
			return exited, nil
		}
		if err := write(s, content); err != nil {
			return exited, err
		}
	}
}

func TestRoundTrips(t *testing.T) {
	l := start(t, echo)
	for _, want := range []string{"one", "", "two"} {
		if err := l.Send(t.Context(), []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Receive(t.Context()); err != nil || string(got) != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	if _, ok, _ := l.Outcome(t.Context(), 0); ok || !l.Alive() {
		t.Error("the sandbox has ended")
	}
	l.CloseInput()
	if o, ok, err := l.Outcome(t.Context(), time.Minute); !ok || err != nil || o.End != sandbox.Exited || l.Alive() {
		t.Errorf("the sandbox ended with %v, %v, %v", o, ok, err)
	}
	if _, err := l.Receive(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("after its end: %v", err)
	}
}

func TestFrameBeforeItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, func(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
			err := write(s, []byte("early"))
			<-ctx.Done()
			return exited, err
		})
		synctest.Wait()
		if err := l.Send(t.Context(), nil); !errors.Is(err, ErrEarly) {
			t.Errorf("got %v", err)
		}
	})
}

func TestStreamsWithoutFrames(t *testing.T) {
	for name, tc := range map[string]struct {
		stream string
		want   error
	}{
		"nothing":  {"", ErrEnded},
		"text":     {"{\"passed\": true}\n", frame.ErrInvalid},
		"cut off":  {"\x00\x00\x00\x05abc", frame.ErrInvalid},
		"too long": {"\x00\x00\x00\x65" + strings.Repeat("x", 101), frame.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			l := start(t, func(_ context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
				_, err := io.WriteString(s.Stdout, tc.stream)
				return exited, err
			})
			if got, err := l.Receive(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("got %q, %v; want %v", got, err, tc.want)
			}
			if o, ok, err := l.Outcome(t.Context(), time.Minute); !ok || err != nil || o.End != sandbox.Exited {
				t.Errorf("what the sandbox wrote is an error of the engine's: %v, %v, %v", o, ok, err)
			}
		})
	}
}

// TestFramesBeforeTheEnd: what a sandbox said last is delivered after its end.
func TestFramesBeforeTheEnd(t *testing.T) {
	l := start(t, func(_ context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
		return exited, write(s, []byte("last"))
	})
	if _, ok, _ := l.Outcome(t.Context(), time.Minute); !ok {
		t.Fatal("the sandbox has not ended")
	}
	if got, err := l.Receive(t.Context()); err != nil || string(got) != "last" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestHostileSandboxes: a sandbox that floods, that does not read or that does
// not answer blocks callers no longer than they want to wait, nor its own end.
func TestHostileSandboxes(t *testing.T) {
	for name, p := range map[string]program{
		"floods frames": func(_ context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
			for {
				if err := write(s, make([]byte, 100)); err != nil {
					return exited, err
				}
			}
		},
		"floods standard error": func(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
			for ctx.Err() == nil {
				if n, err := s.Stderr.Write(make([]byte, 1000)); n != 1000 || err != nil {
					return exited, errors.New("standard error takes no more")
				}
			}
			return exited, nil
		},
		"is silent": func(ctx context.Context, _ sandbox.Streams) (sandbox.Outcome, error) {
			<-ctx.Done()
			return exited, context.Cause(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := start(t, p)
			enough := errors.New("enough")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, enough)
			defer cancel()
			err := l.Send(ctx, []byte("one"))
			for err == nil {
				err = l.Send(ctx, make([]byte, 50)) // the second is held up
			}
			if !errors.Is(err, enough) && !errors.Is(err, ErrEarly) {
				t.Errorf("sending: %v", err)
			}
			if kept, _ := l.Stderr(); len(kept) > 10 {
				t.Errorf("%d bytes of standard error are kept", len(kept))
			}
			if err := l.KillOverdue(t.Context()); err != nil || l.Alive() {
				t.Errorf("killing it: %v, alive %v", err, l.Alive())
			}
		})
	}
}

// TestDisturbedSandbox: an overdue sandbox that was stopped from outside is
// reported as disturbed.
func TestDisturbedSandbox(t *testing.T) {
	l := start(t, func(ctx context.Context, _ sandbox.Streams) (sandbox.Outcome, error) {
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), sandbox.ErrOverdue) {
			return exited, context.Cause(ctx)
		}
		return exited, sandbox.ErrDisturbed
	})
	if err := l.KillOverdue(t.Context()); !errors.Is(err, sandbox.ErrDisturbed) {
		t.Errorf("got %v", err)
	}
}

// TestEnd: a sandbox whose stream has ended is not judged before the engine says
// how it ended; one that does not end is killed.
func TestEnd(t *testing.T) {
	disturbed := func(ctx context.Context, _ sandbox.Streams) (sandbox.Outcome, error) {
		time.Sleep(100 * time.Millisecond)
		return sandbox.Outcome{}, sandbox.ErrDisturbed
	}
	silent := func(ctx context.Context, _ sandbox.Streams) (sandbox.Outcome, error) {
		<-ctx.Done()
		return sandbox.Outcome{}, context.Cause(ctx)
	}
	quick := func(context.Context, sandbox.Streams) (sandbox.Outcome, error) { return exited, nil }
	for _, c := range []struct {
		name     string
		run      program
		patience time.Duration
		ok       bool
		want     error
	}{{"disturbed, said late", disturbed, 10 * time.Millisecond, false, sandbox.ErrDisturbed}, {"silent", silent, 10 * time.Millisecond, false, nil}, {"ended", quick, time.Hour, true, nil}} {
		t.Run(c.name, func(t *testing.T) {
			l := start(t, c.run)
			o, ok, err := l.End(t.Context(), c.patience)
			if ok != c.ok || !errors.Is(err, c.want) || ok && o.End != sandbox.Exited || l.Alive() {
				t.Errorf("got %+v, %v, %v", o, ok, err)
			}
		})
	}
}

func TestNoSandbox(t *testing.T) {
	_, err := Start(t.Context(), t.Context(), engine{}, sandbox.Spec{Labels: sandbox.Labels{Role: "test"}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "opening the test sandbox") {
		t.Errorf("got %v", err)
	}
}
