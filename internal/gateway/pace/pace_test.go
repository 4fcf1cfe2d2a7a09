package pace_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"securebench/internal/gateway/pace"
)

// take begins a request at once, or fails the test.
func take(t *testing.T, l *pace.Place) *pace.Request {
	t.Helper()
	began := time.Now()
	r, err := l.Take(t.Context(), nil)
	if err != nil || time.Since(began) > 0 {
		t.Fatalf("a request waited %v: %v", time.Since(began), err)
	}
	return r
}

// waits reports whether a request of the place waits for longer than a time.
func waits(t *testing.T, l *pace.Place, d time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r, err := l.Take(ctx, nil)
	r.End()
	return errors.Is(err, context.DeadlineExceeded)
}

// TestGreedyPlace is the attack of an agent that has as many requests under way as it can,
// and ends none of them. It works where those who ask have no places of their own.
func TestGreedyPlace(t *testing.T) {
	for _, weak := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p := pace.New(4)
			greedy, honest := p.Place(), p.Place()
			if weak {
				honest = greedy
			}
			defer greedy.Open()()
			defer honest.Open()()
			var mu sync.Mutex
			var all sync.WaitGroup
			var held []*pace.Request
			for range 50 {
				all.Go(func() {
					if r, err := greedy.Take(ctx, nil); err == nil {
						mu.Lock()
						held = append(held, r)
						mu.Unlock()
					}
				})
			}
			synctest.Wait()
			if starved := waits(t, honest, time.Hour); starved != weak {
				t.Errorf("weak: %v, starved: %v beside %d requests", weak, starved, len(held))
			}
			if len(held) != 3 {
				t.Errorf("%d requests of a place are under way", len(held))
			}
			held[0].End() // whose place another one has
			synctest.Wait()
			mu.Lock()
			if len(held) != 4 {
				t.Errorf("no other request went on: %d", len(held))
			}
			mu.Unlock()
			cancel()
			all.Wait()
		})
	}
}

// TestAdapts: the number of requests under way falls by half when the provider has too much
// to do, once for all that were sent at the former pace, and grows slowly.
func TestAdapts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []pace.State
		set := pace.Set{Tell: func(_ string, s pace.State) { told = append(told, s) }}
		p := set.At("provider.example", 0)
		var all []*pace.Request
		for range 16 {
			all = append(all, take(t, p.Place()))
		}
		time.Sleep(time.Second)
		for _, r := range all[:8] {
			r.Failed(pace.Failure{Overloaded: true})
		}
		if len(told) != 1 || told[0] != (pace.State{Limit: 8, Cut: true, Lowest: true}) {
			t.Fatalf("after a burst of failures: %+v", told)
		}
		time.Sleep(time.Minute)
		if l := p.Place(); !waits(t, l, 30*time.Second) {
			t.Error("a ninth request does not wait")
		}
		for range 9 {
			all[8].Answered()
		}
		if len(told) != 2 || told[1] != (pace.State{Limit: 9}) {
			t.Errorf("after as many answers as may be under way: %+v", told)
		}
		ninth := take(t, p.Place())
		for _, r := range all {
			r.End()
		}
		for range 100 {
			ninth.Answered()
		}
		if len(told) != 2 {
			t.Errorf("it grows though it is not used: %+v", told)
		}
		for range 5 {
			time.Sleep(time.Hour)
			ninth.Failed(pace.Failure{Overloaded: true})
			ninth = take(t, p.Place())
		}
		if last := told[len(told)-1]; last.Limit != 1 {
			t.Errorf("one request is always possible: %+v", told)
		}
	})
}

// TestFirstRequest: a place without a request under way waits for a minute at most, however
// few requests the provider bears and however long those of others take.
func TestFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(0)
		endless, other := p.Place(), p.Place()
		take(t, p.Place()).Failed(pace.Failure{Overloaded: true})
		take(t, endless)
		began, holds := time.Now(), 0
		r, err := other.Take(t.Context(), func(context.Context) (func(), error) {
			holds++
			return func() { holds-- }, nil
		})
		if took := time.Since(began); err != nil || took != pace.MaxWait || holds != 0 {
			t.Fatalf("it waited %v, %d holds are open: %v", took, holds, err)
		}
		if !waits(t, other, time.Hour) {
			t.Error("a second request beside it does not wait")
		}
		r.End()
	})
}

// TestRetryAfter: all wait for as long as the provider asks one to, a minute at most.
func TestRetryAfter(t *testing.T) {
	for asked, all := range map[time.Duration]time.Duration{20 * time.Second: 20 * time.Second, time.Hour: pace.MaxWait} {
		synctest.Test(t, func(t *testing.T) {
			p := pace.New(0)
			own := take(t, p.Place()).Failed(pace.Failure{Overloaded: true, Asked: asked})
			if left := p.Left(); own < asked || own > asked*5/4+1 || left < all || left > all*5/4+1 {
				t.Errorf("asked for %v: the request waits %v, all wait %v", asked, own, left)
			}
		})
	}
}

// TestOwnLimits: a place that is limited again and again while others are answered lowers
// the pace of these once.
func TestOwnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cuts := 0
		set := pace.Set{Tell: func(_ string, s pace.State) {
			if s.Cut {
				cuts++
			}
		}}
		p := set.At("provider.example", 64)
		evil, honest := p.Place(), p.Place()
		for range 60 {
			take(t, evil).Failed(pace.Failure{Overloaded: true})
			time.Sleep(5 * time.Second)
			r := take(t, honest)
			r.Answered()
			r.End()
		}
		if cuts != 1 {
			t.Errorf("%d cuts", cuts)
		}
	})
}

// TestSet: who asks one provider shares its pace, and the smallest bound counts.
func TestSet(t *testing.T) { synctest.Test(t, testSet) }

func testSet(t *testing.T) {
	var set pace.Set
	p := set.At("a", 8)
	if set.At("a", 0) != p || set.At("b", 0) == p {
		t.Error("paces are mixed up")
	}
	set.At("a", 2)
	r := []*pace.Request{take(t, p.Place()), take(t, p.Place())}
	if !waits(t, p.Place(), time.Millisecond) {
		t.Error("a third request does not wait")
	}
	r[0].End()
	r[0].End()
	take(t, p.Place())
	var none *pace.Set
	if one, other := none.At("a", 1), none.At("a", 1); one == other {
		t.Error("without a set, paces are shared")
	}
}

// TestEveryPlaceHasItsFirst: whatever places do, those that are open have a first request at
// once, and all requests are as many as may be, while there are no more places than that.
func TestEveryPlaceHasItsFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			const most = 4
			p := pace.New(most)
			places := make([]*pace.Place, rapid.IntRange(1, most).Draw(rt, "places"))
			for i := range places {
				places[i] = p.Place()
				defer places[i].Open()()
			}
			var mu sync.Mutex
			under := map[*pace.Place][]*pace.Request{}
			for range rapid.IntRange(1, 30).Draw(rt, "steps") {
				l := rapid.SampledFrom(places).Draw(rt, "place")
				if rapid.Bool().Draw(rt, "ends") {
					mu.Lock()
					if n := len(under[l]); n > 0 {
						under[l][n-1].End()
						under[l] = slices.Delete(under[l], n-1, n)
					}
					mu.Unlock()
				} else {
					go func() {
						if r, err := l.Take(ctx, nil); err == nil {
							mu.Lock()
							defer mu.Unlock()
							under[l] = append(under[l], r)
						}
					}()
				}
				synctest.Wait()
				all, idle := 0, 0
				for _, l := range places {
					if n := len(under[l]); n > 0 {
						all += n
					} else {
						idle++
					}
				}
				if all+idle > most {
					rt.Fatalf("%d requests leave no room for the first ones of %d places", all, idle)
				}
			}
			for _, l := range places {
				if len(under[l]) == 0 {
					take(t, l)
				}
			}
		})
	})
}
