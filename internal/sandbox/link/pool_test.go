package link

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// house makes boxes and counts them.
type house struct {
	t          interface{ Errorf(string, ...any) }
	limit      int64
	made, live atomic.Int64
}

type pooled struct {
	house  *house
	key    string
	broken atomic.Bool
	leased atomic.Bool
	closed atomic.Bool
}

func (b *pooled) Reusable() bool { return !b.broken.Load() }

func (b *pooled) Close(context.Context) error {
	if b.closed.Swap(true) {
		b.house.t.Errorf("box %s is closed twice", b.key)
	}
	b.house.live.Add(-1)
	return nil
}

func (h *house) start(key string) Starter[*pooled] {
	return func(context.Context) (*pooled, error) {
		h.made.Add(1)
		if n := h.live.Add(1); n > h.limit {
			h.t.Errorf("%d boxes at once, want at most %d", n, h.limit)
		}
		return &pooled{house: h, key: key}, nil
	}
}

func newHouse(t interface{ Errorf(string, ...any) }, limit int) (*house, *Pool[string, *pooled]) {
	return &house{t: t, limit: int64(limit)}, NewPool[string, *pooled](limit)
}

func leaseOf(t *testing.T, h *house, p *Pool[string, *pooled], key string) *pooled {
	t.Helper()
	b, err := p.Lease(t.Context(), key, h.start(key))
	if err != nil || b.key != key {
		t.Fatalf("leased %v, %v", b, err)
	}
	return b
}

func TestLeastRecentlyUsedBoxMakesRoom(t *testing.T) {
	h, p := newHouse(t, 2)
	for i, step := range []struct {
		key  string
		made int64 // boxes so far
	}{{"a", 1}, {"b", 2}, {"a", 2}, {"c", 3}, {"a", 3}, {"b", 4}, {"a", 4}, {"c", 5}} {
		b := leaseOf(t, h, p, step.key)
		if err := p.Release(t.Context(), step.key, b); err != nil {
			t.Fatal(err)
		}
		if n := h.made.Load(); n != step.made {
			t.Errorf("step %d, key %s: %d boxes were started, want %d", i, step.key, n, step.made)
		}
	}
	if err := p.Close(t.Context()); err != nil || p.Count() != 0 || h.live.Load() != 0 {
		t.Errorf("after Close: %v, %d places, %d boxes", err, p.Count(), h.live.Load())
	}
}

func TestBrokenBoxesAreNotLeasedAgain(t *testing.T) {
	h, p := newHouse(t, 1)
	b := leaseOf(t, h, p, "a")
	b.broken.Store(true)
	if err := p.Release(t.Context(), "a", b); err != nil || !b.closed.Load() {
		t.Errorf("released: %v, closed %v", err, b.closed.Load())
	}
	b = leaseOf(t, h, p, "a")
	if err := p.Release(t.Context(), "a", b); err != nil {
		t.Fatal(err)
	}
	b.broken.Store(true) // while it is idle
	if again := leaseOf(t, h, p, "a"); again == b || !b.closed.Load() {
		t.Error("a box that broke while it was idle is leased")
	}
}

func TestFailedStartsTakeNoPlace(t *testing.T) {
	h, p := newHouse(t, 1)
	broken := errors.New("broken")
	fails := func(context.Context) (*pooled, error) { return nil, broken }
	if _, err := p.Lease(t.Context(), "a", fails); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, ok, err := p.Spare(t.Context(), "a", fails); ok || !errors.Is(err, broken) {
		t.Error(ok, err)
	}
	if _, err := p.Replace(t.Context(), leaseOf(t, h, p, "a"), fails); !errors.Is(err, broken) {
		t.Error(err)
	}
	if p.Count() != 0 {
		t.Errorf("%d places are taken", p.Count())
	}
}

func TestSpare(t *testing.T) {
	h, p := newHouse(t, 2)
	b, ok, err := p.Spare(t.Context(), "a", h.start("a"))
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := p.Release(t.Context(), "a", b); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := p.Spare(t.Context(), "a", h.start("a")); ok {
		t.Error("a spare box although one of its key is idle")
	}
	leaseOf(t, h, p, "b")
	if _, ok, _ := p.Spare(t.Context(), "c", h.start("c")); ok {
		t.Error("a spare box although the limit is reached")
	}
}

func TestLeaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := newHouse(t, 1)
		b := leaseOf(t, h, p, "a")
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		if _, err := p.Lease(ctx, "a", h.start("a")); !errors.Is(err, enough) {
			t.Errorf("the wait ended with %v", err)
		}
		start := time.Now()
		time.AfterFunc(time.Minute, func() {
			if err := p.Release(context.Background(), "a", b); err != nil {
				t.Error(err)
			}
		})
		if leaseOf(t, h, p, "a") != b || time.Since(start) != time.Minute {
			t.Errorf("waited %v", time.Since(start))
		}
	})
}

// TestManyLeases: whatever callers do, there are never more boxes than the
// limit, no box has two leases, all waits end, and nothing is left.
func TestManyLeases(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(rt, "limit")
		seed := rapid.Uint64().Draw(rt, "seed")
		h, p := newHouse(t, limit)
		var wait sync.WaitGroup
		for worker := range 6 {
			wait.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(worker)))
				for range 20 {
					h.use(t.Context(), p, rng)
				}
			})
		}
		wait.Wait()
		if err := p.Close(t.Context()); err != nil || p.Count() != 0 || h.live.Load() != 0 {
			t.Errorf("after Close: %v, %d places, %d boxes", err, p.Count(), h.live.Load())
		}
	})
}

// use leases one box, perhaps replaces or breaks it, and releases it.
func (h *house) use(ctx context.Context, p *Pool[string, *pooled], rng *rand.Rand) {
	key := string(rune('a' + rng.IntN(3)))
	b, err := p.Lease(ctx, key, h.start(key))
	if rng.IntN(4) == 0 && err == nil {
		b, err = p.Replace(ctx, b, h.start(key))
	}
	if err != nil {
		h.t.Errorf("leasing: %v", err)
		return
	}
	if b.key != key || b.closed.Load() || b.leased.Swap(true) {
		h.t.Errorf("leased box %s for %s, closed %v", b.key, key, b.closed.Load())
	}
	b.broken.Store(rng.IntN(5) == 0)
	b.leased.Store(false)
	if err := p.Release(ctx, key, b); err != nil {
		h.t.Errorf("releasing: %v", err)
	}
}
