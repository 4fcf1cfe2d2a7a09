package native_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// TestClockJumps sets the machine's clock forth and back while sandboxes run: their
// limits and durations stay right. It is for machines that nobody else uses, such as
// those of scripts/machine.sh.
func TestClockJumps(t *testing.T) {
	if os.Getenv("SECUREBENCH_TEST_CLOCK") == "" {
		t.Skip("it sets the machine's clock: set SECUREBENCH_TEST_CLOCK on a machine that nobody else uses")
	}
	e := enginetest.Native(t)
	img := enginetest.Image(t, e)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for step := 24 * time.Hour; ; step = -step {
			now := unix.NsecToTimeval(time.Now().Add(step).UnixNano())
			if err := unix.Settimeofday(&now); err != nil {
				t.Errorf("setting the clock: %v", err)
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for _, c := range []struct {
		seconds string
		limit   time.Duration
		end     sandbox.End
		least   time.Duration
	}{
		{"1", time.Hour, sandbox.Exited, time.Second},
		{"600", 2 * time.Second, sandbox.TimedOut, 2 * time.Second},
	} {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: []string{"sleep", c.seconds}, Limits: sandbox.Limits{Timeout: c.limit}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := b.Run(t.Context(), sandbox.Streams{})
		if err != nil || out.End != c.end || out.Duration < c.least || out.Duration > time.Hour {
			t.Errorf("sleep %s: got %+v, %v", c.seconds, out, err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	diffOwned(t, e)
}
