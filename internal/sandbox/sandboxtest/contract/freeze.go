package contract

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"securebench/internal/sandbox"
)

// freeze stops a box for a while: nothing comes out of it meanwhile, it ends as
// if nothing had been, and it can be closed while it is frozen.
func (s *suite) freeze(t *testing.T) {
	spec := s.spec("")
	spec.Command, spec.Stdin = []string{"cat"}, true
	b := s.open(t, spec)
	f, ok := b.(sandbox.Freezer)
	if !ok {
		t.Skip("the engine freezes no boxes")
	}
	if err := f.Freeze(t.Context()); err == nil {
		t.Error("a box is frozen that does not run")
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		out, err := b.Run(t.Context(), sandbox.Streams{Stdin: inR, Stdout: outW})
		if err == nil && (out.End != sandbox.Exited || out.ExitCode != 0) {
			t.Errorf("got %+v", out)
		}
		_ = outW.Close()
		ended <- err
	}()
	echo := func(word string) {
		t.Helper()
		got := make([]byte, len(word))
		if _, err := io.ReadFull(outR, got); err != nil || !bytes.Equal(got, []byte(word)) {
			t.Fatalf("got %q, %v; want %q", got, err, word)
		}
	}
	say := func(word string) { _, _ = io.WriteString(inW, word) }
	say("one")
	echo("one")
	arrived := make(chan struct{})
	for _, word := range []string{"two", "three"} {
		for range 2 { // a second call changes nothing
			if err := f.Freeze(t.Context()); err != nil {
				t.Fatalf("Freeze: %v", err)
			}
		}
		go say(word)
		go func() { echo(word); arrived <- struct{}{} }()
		select {
		case <-arrived:
			t.Error("a frozen box answers")
		case <-time.After(200 * time.Millisecond): // shows nothing on a slow machine
		}
		if err := f.Thaw(t.Context()); err != nil {
			t.Fatalf("Thaw: %v", err)
		}
		<-arrived
	}
	_ = inW.Close()
	if err := errors.Join(<-ended, f.Freeze(t.Context()), f.Thaw(t.Context())); err != nil {
		t.Errorf("the end, and freezing after it: %v", err)
	}
	t.Run("close", s.closeFrozen)
	t.Run("timeout", s.timeoutFrozen)
}

// frozen returns a box that runs and is frozen.
func (s *suite) frozen(t *testing.T, timeout time.Duration) (b sandbox.Box, end func() (sandbox.Outcome, error)) {
	t.Helper()
	spec := s.spec(scriptForever)
	spec.Limits.Timeout = timeout
	b = s.open(t, spec)
	started, ended := newSignal(), make(chan error, 1)
	var out sandbox.Outcome
	go func() {
		var err error
		out, err = b.Run(context.Background(), sandbox.Streams{Stdout: started})
		ended <- err
	}()
	<-started.c
	if err := b.(sandbox.Freezer).Freeze(t.Context()); err != nil {
		t.Fatalf("Freeze: %v", err)
	}
	return b, func() (sandbox.Outcome, error) { err := <-ended; return out, err }
}

func (s *suite) closeFrozen(t *testing.T) {
	b, end := s.frozen(t, bound)
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := end(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Run: got %v, want os.ErrClosed", err)
	}
}

// timeoutFrozen: the time of a box continues while it is frozen, and that it was is
// no disturbance.
func (s *suite) timeoutFrozen(t *testing.T) {
	_, end := s.frozen(t, 3*time.Second)
	out, err := end()
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	diffOutcome(t, sandbox.Outcome{End: sandbox.TimedOut, ExitCode: 124}, out)
}
