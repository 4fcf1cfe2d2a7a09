package capacity

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// use counts what grants hold, apart from the gate.
type use struct {
	mu   sync.Mutex
	used Amount
}

func (u *use) add(t *testing.T, whole, a Amount) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.used = u.used.plus(a); !u.used.within(whole) {
		t.Errorf("%v of %v is in use", u.used, whole)
	}
}

func (u *use) remove(a Amount) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used = u.used.minus(a)
}

// TestGateProperties: with needs of any size, any of which may give up or hold
// longer than others, no more than the whole is ever in use, and everyone ends.
func TestGateProperties(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 12))
			whole := Amount{Memory: 1 + r.Int64N(100), Disk: r.Int64N(100), CPUs: 1 + r.Int64N(50)}
			g, u := newGate(whole), &use{}
			var wg sync.WaitGroup
			for range 200 {
				need := Amount{r.Int64N(whole.Memory + 1), r.Int64N(whole.Disk + 1), r.Int64N(whole.CPUs + 1)}
				arrive, hold := time.Duration(r.IntN(1000)), time.Duration(r.IntN(50))
				patience, try := time.Duration(1<<40), r.IntN(4) == 0
				if r.IntN(4) == 0 {
					patience = time.Duration(r.IntN(100))
				}
				wg.Go(func() {
					time.Sleep(arrive)
					ctx, stop := context.WithTimeout(t.Context(), patience)
					defer stop()
					var grant *Grant
					if try {
						grant = g.try(need)
					} else {
						grant, _ = g.acquire(ctx, need)
					}
					if grant == nil {
						return
					}
					u.add(t, whole, need)
					time.Sleep(hold)
					u.remove(need)
					grant.Release()
					grant.Release()
				})
			}
			wg.Wait() // a wait without an end is a deadlock, which synctest reports
			if g.used != (Amount{}) || len(g.waiting) > 0 {
				t.Errorf("%v is still in use, %d wait", g.used, len(g.waiting))
			}
		})
	}
}

// TestGateLargeOnesAreNotStarved: small needs that keep coming don't pass a
// large one. A gate that let them past would never admit it.
func TestGateLargeOnesAreNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Amount{Memory: 10})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var wg sync.WaitGroup
		for i := range 20 { // more than half of the whole is always in use
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				for ctx.Err() == nil {
					if grant, err := g.acquire(ctx, Amount{Memory: 1}); err == nil {
						time.Sleep(7 * time.Millisecond)
						grant.Release()
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		large, err := g.acquire(ctx, Amount{Memory: 10})
		if err != nil {
			t.Fatal(err)
		}
		if g.try(Amount{Memory: 1}) != nil {
			t.Error("something was admitted beside what takes the whole")
		}
		large.Release()
		stop()
		wg.Wait()
	})
}

// TestGateRefusesTheImpossible: what can never be admitted does not wait, and
// keeps nobody else waiting.
func TestGateRefusesTheImpossible(t *testing.T) {
	g := newGate(Amount{Memory: 10, CPUs: 1000})
	for _, need := range []Amount{{Memory: 11}, {Disk: 1}, {CPUs: 1001}} {
		if _, err := g.acquire(t.Context(), need); err == nil {
			t.Errorf("%v was admitted", need)
		}
	}
	if g.try(Amount{Memory: 10, CPUs: 1000}) == nil {
		t.Error("the whole is not free")
	}
}

// TestGateLeavingLetsOthersIn: one that gives up lets in those that waited behind
// it.
func TestGateLeavingLetsOthersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Amount{Memory: 10})
		first, _ := g.acquire(t.Context(), Amount{Memory: 5})
		ctx, stop := context.WithCancel(t.Context())
		large := make(chan error)
		go func() {
			_, err := g.acquire(ctx, Amount{Memory: 10})
			large <- err
		}()
		synctest.Wait()
		small := make(chan *Grant)
		go func() {
			grant, _ := g.acquire(t.Context(), Amount{Memory: 5})
			small <- grant
		}()
		synctest.Wait()
		if g.try(Amount{Memory: 1}) != nil {
			t.Error("one that did not wait was admitted before those that do")
		}
		stop()
		if err := <-large; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		(<-small).Release()
		first.Release()
	})
}
