package allowance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestSpent: an allowance that is spent refuses every request, and says what is spent.
// One that is not refuses none, and nothing has no bound.
func TestSpent(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, used Amount
		want        string
	}{
		"nothing used": {Amount{Requests: 1, Tokens: 1, Cost: 0.1}, Amount{}, ""},
		"some left":    {Amount{Requests: 3, Tokens: 10, Cost: 1}, Amount{Requests: 2, Tokens: 9, Cost: 0.99}, ""},
		"requests":     {Amount{Requests: 3, Tokens: 10}, Amount{Requests: 3, Tokens: 9}, "harness.config.budget.total is spent: 3 of 3 requests"},
		"all":          {Amount{Requests: 3, Tokens: 10, Cost: 2.5}, Amount{Requests: 4, Tokens: 12, Cost: 2.625}, "harness.config.budget.total is spent: 4 of 3 requests, 12 of 10 tokens, 2.625 of 2.5 USD"},
		"no bound":     {Amount{Cost: 1}, Amount{Requests: 1 << 40, Tokens: 1 << 40}, ""},
	} {
		a := New("harness.config.budget.total", tt.limit)
		a.Add(tt.used)
		s, err := a.Take(t.Context(), Amount{Tokens: 100, Cost: 100}, nil)
		if tt.want == "" {
			if err != nil || s == nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || err.Error() != tt.want || !errors.Is(err, ErrSpent) || s != nil {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	var none *Allowance
	none.Add(Amount{Requests: 1})
	s, err := none.Take(t.Context(), Amount{Tokens: 1 << 60}, nil)
	if New("harness.config.budget.total", Amount{}) != nil || err != nil {
		t.Errorf("no bound: %v", err)
	}
	s.Settle(Amount{})
	s.Return()
}

// TestReturn: a request that is not made is as if it had never been asked for.
func TestReturn(t *testing.T) {
	a := New("harness.config.budget.total", Amount{Requests: 1, Tokens: 10})
	for range 3 {
		s, err := a.Take(t.Context(), Amount{Tokens: 10}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Return()
	}
	s, err := a.Take(t.Context(), Amount{Tokens: 10}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Settle(Amount{Requests: 7, Tokens: 3})
	if _, err := a.Take(t.Context(), Amount{}, nil); !errors.Is(err, ErrSpent) {
		t.Errorf("a second request of one: %v", err)
	}
}

// TestWait: near the bound, a request waits for those under way, and holds its agent
// meanwhile. It does not wait longer than it has to, nor for longer than its agent is
// there.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New("harness.config.budget.total", Amount{Tokens: 100})
		first, err := a.Take(t.Context(), Amount{Tokens: 60}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var held, released atomic.Int32
		hold := func(context.Context) (func(), error) {
			held.Add(1)
			return func() { released.Add(1) }, nil
		}
		ctx, leave := context.WithCancel(t.Context())
		shares, got := make(chan *Share, 1), make(chan error, 1)
		take := func(ctx context.Context) {
			s, err := a.Take(ctx, Amount{Tokens: 60}, hold)
			shares <- s
			got <- err
		}
		go take(ctx)
		synctest.Wait()
		if held.Load() != 1 || released.Load() != 0 || len(got) != 0 {
			t.Fatal("a request that does not fit does not wait")
		}
		leave()
		<-shares
		if err := <-got; !errors.Is(err, context.Canceled) || released.Load() != 1 {
			t.Errorf("the agent has left: %v", err)
		}
		go take(t.Context())
		synctest.Wait()
		first.Settle(Amount{Tokens: 20})
		second := <-shares
		if err := <-got; err != nil || released.Load() != 2 {
			t.Errorf("what was set aside is free: %v", err)
		}
		go take(t.Context())
		synctest.Wait()
		second.Settle(Amount{Tokens: 80})
		<-shares
		if err := <-got; !errors.Is(err, ErrSpent) {
			t.Errorf("nothing is left: %v", err)
		}
		b := New("harness.config.budget.total", Amount{Tokens: 1})
		if _, err := b.Take(t.Context(), Amount{Tokens: 1}, nil); err != nil {
			t.Fatal(err)
		}
		other := errors.New("the engine is busy")
		if _, err := b.Take(t.Context(), Amount{Tokens: 1}, func(context.Context) (func(), error) { return nil, other }); !errors.Is(err, other) {
			t.Errorf("the agent cannot be held: %v", err)
		}
	})
}

// TestOverspent: however many requests ask at the same time, what is used beyond the
// bound is at most what those under way use beyond what was set aside for them, and one
// more part. No request above the bound is made.
func TestOverspent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Amount{Requests: rapid.Int64Range(1, 200).Draw(t, "requests"), Tokens: rapid.Int64Range(1, 2000).Draw(t, "tokens")}
		part := rapid.Int64Range(0, 100).Draw(t, "part")
		most := part + rapid.Int64Range(0, 100).Draw(t, "more")
		agents := rapid.IntRange(1, 16).Draw(t, "agents")
		a := New("harness.config.budget.total", limit)
		var widest, requests, tokens atomic.Int64
		var all sync.WaitGroup
		for n := range agents {
			all.Go(func() {
				for i := range 100 {
					s, err := a.Take(context.Background(), Amount{Tokens: part}, nil)
					if err != nil {
						return
					}
					a.mu.Lock()
					widest.Store(max(widest.Load(), int64(a.open)))
					a.mu.Unlock()
					used := (int64(n+i) * 37) % (most + 1)
					requests.Add(1)
					tokens.Add(used)
					s.Settle(Amount{Tokens: used})
				}
			})
		}
		all.Wait()
		if over := tokens.Load() - limit.Tokens; over > widest.Load()*(most-part)+part || requests.Load() > limit.Requests {
			t.Fatalf("%d requests of %d; %d tokens of %d with at most %d under way", requests.Load(), limit.Requests, tokens.Load(), limit.Tokens, widest.Load())
		}
	})
}
