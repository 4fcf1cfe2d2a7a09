package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// countingEngine counts the test boxes that are made.
type countingEngine struct {
	sandbox.Engine
	testBoxes atomic.Int64
}

func (e *countingEngine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if spec.Labels.Role == roleTest {
		e.testBoxes.Add(1)
	}
	return e.Engine.Open(ctx, spec)
}

// withWorkers makes a verifier for the given number of parallel verifications.
func withWorkers(t *testing.T, e sandbox.Engine, n int) *Verifier {
	t.Helper()
	r := resources(e)
	r.Workers = n
	v := newVerifier(r).(*Verifier)
	t.Cleanup(func() {
		if err := v.Close(context.Background()); err != nil {
			t.Errorf("closing the verifier: %v", err)
		}
		if v.testBoxes.Count() != 0 {
			t.Errorf("%d places are still taken", v.testBoxes.Count())
		}
	})
	return v
}

// inImage makes a row's case run in an image of some name.
func inImage(t *testing.T, name string, s spec) family.Case {
	c := makeCase(t, s)
	c.Image.ID = name
	return c
}

// TestSessionsPreparedAhead: sessions that are open have no test box yet, so
// there are no more of these than verifications at once.
func TestSessionsPreparedAhead(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{0, 1, 3} {
		e := newLocalEngine(t)
		v := withWorkers(t, e, workers)
		var sessions []family.Session
		for i := range 6 {
			sessions = append(sessions, v.Open(t.Context(), inImage(t, fmt.Sprint("image", i%2), add())))
		}
		for i, s := range sessions {
			got, err := s.Verify(t.Context(), module(add().reference))
			if err != nil || got.Outcome != verdict.Passed {
				t.Errorf("session %d: %v %s", i, err, describe(got))
			}
		}
		for _, s := range sessions {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := e.atOnce(roleTest); n > max(1, workers) {
			t.Errorf("%d test boxes at once for %d workers", n, workers)
		}
	}
}

// TestManyImagesAtOnce: all sessions finish, right and wrong ones, and no more
// test boxes exist at once than there are workers.
func TestManyImagesAtOnce(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2} {
		e := newLocalEngine(t)
		v := withWorkers(t, e, workers)
		var wait sync.WaitGroup
		for i := range 18 {
			wait.Go(func() {
				s, want := add(), verdict.Passed
				s.id = fmt.Sprint("task", i)
				candidate := s.reference
				switch i % 3 {
				case 1:
					candidate, want = "def add(a, b): return 4\n", verdict.Failed
				case 2:
					candidate, want = "import os\ndef add(a, b): os._exit(0)\n", verdict.Failed
				}
				if got := verify(t, v, inImage(t, fmt.Sprint("image", i%6), s), candidate); got.Outcome != want {
					t.Errorf("%d: %s", i, describe(got))
				}
			})
		}
		wait.Wait()
		if n := e.atOnce(roleTest); n > workers {
			t.Errorf("%d test boxes at once for %d workers", n, workers)
		}
	}
}

// TestLeastRecentlyUsedGoes: room is made at the cost of the image that was
// used least recently.
func TestLeastRecentlyUsedGoes(t *testing.T) {
	t.Parallel()
	e := newLocalEngine(t)
	v := withWorkers(t, e, 2)
	for i, step := range []struct {
		image string
		made  int // test boxes so far
	}{{"a", 1}, {"b", 2}, {"a", 2}, {"c", 3}, {"a", 3}, {"b", 4}, {"a", 4}, {"c", 5}} {
		if got := verify(t, v, inImage(t, step.image, add()), add().reference); got.Outcome != verdict.Passed {
			t.Fatal(describe(got))
		}
		if n := e.count(roleTest); n != step.made {
			t.Errorf("step %d, image %s: %d test boxes made, want %d", i, step.image, n, step.made)
		}
	}
}

// TestRowsOfDifferentTimesShareATestBox: the time is the row's.
func TestRowsOfDifferentTimesShareATestBox(t *testing.T) {
	e := newLocalEngine(t)
	v := withWorkers(t, e, 1)
	for i := range 3 {
		s := add()
		s.limits.Timeout = time.Duration(i+60) * time.Second
		if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
			t.Fatal(describe(got))
		}
	}
	if n := e.count(roleTest); n != 1 {
		t.Errorf("%d test boxes", n)
	}
}

// TestWaitingForATestBox: the wait does not count as the candidate's time, is
// reported, and ends with the context.
func TestWaitingForATestBox(t *testing.T) {
	t.Parallel()
	v := withWorkers(t, newLocalEngine(t), 1)
	s := add()
	s.limits.Timeout = 5 * time.Second
	c := makeCase(t, s)
	o, err := v.leaseTestBox(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if _, err := v.leaseTestBox(ctx, c); !errors.Is(err, cause) {
		t.Errorf("a wait that was called off: error %v", err)
	}
	const held = 6 * time.Second // longer than the row has
	time.AfterFunc(held, func() {
		if err := v.releaseTestBox(t.Context(), c, o); err != nil {
			t.Error(err)
		}
	})
	if got := verify(t, v, c, s.reference); got.Outcome != verdict.Passed || got.Waited < held/2 {
		t.Errorf("waited %v: %s", got.Waited, describe(got))
	}
	if got := verify(t, v, c, "import time\ntime.sleep(0.5)\n"+s.reference); got.Outcome != verdict.Passed || got.Waited > held {
		t.Errorf("waited %v for a candidate that took its time: %s", got.Waited, describe(got))
	}
}

// TestTroubleUnderTheCap: a test box that is replaced takes no second place.
func TestTroubleUnderTheCap(t *testing.T) {
	e := newLocalEngine(t)
	v := withWorkers(t, e, 1)
	s := spec{prompt: "p", reference: "def f(): return 3\n", tests: "n = f()\nassert len('x' * n) == n\n"}
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			candidate, want := s.reference, verdict.Passed
			if i%2 == 0 {
				candidate, want = "def f(): return 10**11\n", verdict.Limit
			}
			if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != want {
				t.Errorf("%d: %s", i, describe(got))
			}
		})
	}
	wait.Wait()
	if n := e.atOnce(roleTest); n != 1 {
		t.Errorf("%d test boxes at once", n)
	}
}

// failingEngine cannot make its first test boxes.
type failingEngine struct {
	*localEngine
	fails atomic.Int64
}

func (e *failingEngine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if spec.Labels.Role == roleTest && e.fails.Add(-1) >= 0 {
		return nil, errDead
	}
	return e.localEngine.Open(ctx, spec)
}

// TestPlacesAfterFailedStarts: a test box that could not be made takes no place.
func TestPlacesAfterFailedStarts(t *testing.T) {
	e := &failingEngine{localEngine: newLocalEngine(t)}
	e.fails.Store(2) // in Open and in Verify
	v := withWorkers(t, e, 1)
	s := v.Open(t.Context(), makeCase(t, add()))
	if _, err := s.Verify(t.Context(), module(add().reference)); !errors.Is(err, errDead) {
		t.Errorf("got error %v, want the engine's", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := verify(t, v, makeCase(t, add()), add().reference); got.Outcome != verdict.Passed {
		t.Error(describe(got))
	}
}
