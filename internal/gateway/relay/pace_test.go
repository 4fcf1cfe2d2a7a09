package relay

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/gateway/pace"
)

// hanging is a provider whose answers to some requests begin and never end. most is how
// many of these were under way at a time.
func hanging(most *atomic.Int64) roundTrip {
	var running atomic.Int64
	return func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		response := respond(200, eventStream, codexStream)
		if strings.Contains(string(body), "evil") {
			from, to := io.Pipe()
			most.Store(max(most.Load(), running.Add(1)))
			context.AfterFunc(r.Context(), func() {
				running.Add(-1)
				to.CloseWithError(context.Canceled)
			})
			response.Body = from
		}
		return response, nil
	}
}

// TestGreedyAgent is the attack of an agent that holds as many streams open as it can, in
// each dialect. Where it shares its place with others, an honest agent beside it is never
// answered. Here each has a place of its own, and the honest one does not even wait.
func TestGreedyAgent(t *testing.T) {
	for api := range apis {
		for _, weak := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var most atomic.Int64
				cfg := config(api, "https://provider.example")
				cfg.Transport, cfg.Connections = hanging(&most), 4
				r := newRelay(t, cfg)
				ctx, cancel := context.WithCancel(t.Context())
				greedy, honest := start(t, r), start(t, r)
				if weak {
					honest.place = greedy.place
				}
				greedy.Handler(ctx)
				honest.Handler(ctx)
				var all sync.WaitGroup
				for range 30 {
					all.Go(func() { greedy.call(ctx, strings.Replace(apis[api].body, "hi", "evil", 1)) })
				}
				synctest.Wait()
				began, answered := time.Now(), 0
				for range 10 {
					request, stop := context.WithTimeout(ctx, time.Hour)
					if w := honest.call(request, apis[api].body); w.Code == 200 {
						answered++
					}
					stop()
				}
				switch took := time.Since(began); {
				case weak && answered > 0:
					t.Errorf("%s: the attack does not work: %d answers", api, answered)
				case !weak && (answered != 10 || took > 0 || honest.Held() > 0):
					t.Errorf("%s: %d answers in %v, held %v", api, answered, took, honest.Held())
				}
				if most.Load() != 3 {
					t.Errorf("%s: %d streams of an agent are open", api, most.Load())
				}
				cancel()
				all.Wait()
			})
		}
	}
}

// TestTurn: an agent is held while its first request waits for its turn, and that is no
// part of how long it may wait for the provider.
func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most atomic.Int64
		cfg := config(Responses, "https://provider.example")
		cfg.Transport, cfg.Connections = hanging(&most), 1
		r := newRelay(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		endless, honest := start(t, r), start(t, r)
		go endless.call(ctx, strings.Replace(codexBody, "hi", "evil", 1))
		synctest.Wait()
		for range 3 {
			if w := honest.call(t.Context(), codexBody); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		waited := honest.trace.done[0].Waited
		if honest.Held() != 3*pace.MaxWait || honest.holds.left() != MaxHold || honest.open() != 0 || honest.frozen != 3 || waited != pace.MaxWait.Nanoseconds() {
			t.Errorf("held %v, %v are left, %d holds of %d open, waited %d", honest.Held(), honest.holds.left(), honest.open(), honest.frozen, waited)
		}
		cancel()
		synctest.Wait()
	})
}

// TestBusyAgentIsNotHeld: a further request of an agent waits without holding it, because it
// has to read the answer that is under way.
func TestBusyAgentIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most atomic.Int64
		cfg := config(Responses, "https://provider.example")
		cfg.Transport, cfg.Connections = hanging(&most), 1
		g := start(t, newRelay(t, cfg))
		first, leave := context.WithCancel(t.Context())
		go g.call(first, strings.Replace(codexBody, "hi", "evil", 1))
		synctest.Wait()
		answered := make(chan int)
		go func() { answered <- g.call(t.Context(), codexBody).Code }()
		time.Sleep(time.Hour)
		if g.frozen != 0 || most.Load() != 1 {
			t.Errorf("%d holds, %d streams", g.frozen, most.Load())
		}
		leave()
		if code := <-answered; code != 200 {
			t.Errorf("after the first: %d", code)
		}
	})
}
