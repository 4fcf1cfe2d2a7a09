package relay

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/gateway/allowance"
)

// TestTotal: however many agents ask at the same time, they use no more than the run's
// allowance, and what the requests under way use beyond what was set aside for them. The
// attempt of each that is refused has failed, and asks nothing more. Where there is
// enough for all, nobody waits or fails.
func TestTotal(t *testing.T) {
	const agents, each = 16, 5
	for name, tt := range map[string]struct {
		total allowance.Amount
		most  int64 // requests that reach the provider
		fails bool
	}{
		"requests":    {allowance.Amount{Requests: 7}, 7, true},
		"tokens":      {allowance.Amount{Tokens: 2500}, 23, true}, // of 110 each
		"cost":        {allowance.Amount{Cost: 0.005}, 4, true},   // of 0.00164 each
		"enough":      {allowance.Amount{Requests: agents * each, Tokens: 1e6, Cost: 10}, agents * each, false},
		"nothing set": {allowance.Amount{}, agents * each, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked, refused, failed, held atomic.Int64
			cfg := config(Responses, "https://provider.example")
			cfg.Total, cfg.Prices = allowance.New("harness.config.budget.total", tt.total), map[string]Price{model: {Input: 10, CachedInput: 1, Output: 100}}
			cfg.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				asked.Add(1)
				return respond(200, eventStream, codexStream), nil
			})
			r := newRelay(t, cfg)
			var all sync.WaitGroup
			for range agents {
				all.Go(func() {
					g := start(t, r)
					for range each {
						if w := g.call(t.Context(), codexBody); w.Code == 400 && strings.Contains(w.Body.String(), "the budget of the run is spent") {
							refused.Add(1)
						}
					}
					held.Add(int64(g.frozen))
					if g.open() != 0 || g.Spent() {
						t.Errorf("%d holds are left; the attempt's own budget is spent: %v", g.open(), g.Spent())
					}
					if errors.Is(g.Err(), ErrSpent) {
						failed.Add(1)
					} else if g.Err() != nil {
						t.Error(g.Err())
					}
				})
			}
			all.Wait()
			if asked.Load() != tt.most || asked.Load()+refused.Load() != agents*each || (failed.Load() > 0) != tt.fails || !tt.fails && held.Load() > 0 {
				t.Errorf("%d requests reached the provider, want %d; %d were refused; %d attempts failed, %d holds", asked.Load(), tt.most, refused.Load(), failed.Load(), held.Load())
			}
		})
	}
}

// TestTotalHolds: an agent stands still while its request waits for another's, and not
// while it has a stream to read, for whose end the request may wait.
func TestTotalHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := make(chan *io.PipeWriter, 3)
		cfg := config(Responses, "https://provider.example")
		cfg.Total = allowance.New("harness.config.budget.total", allowance.Amount{Tokens: 10_000})
		cfg.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			response := respond(200, eventStream, "")
			from, to := io.Pipe()
			response.Body = from
			bodies <- to
			return response, nil
		})
		r := newRelay(t, cfg)
		busy, other := start(t, r), start(t, r)
		var all sync.WaitGroup
		ask := func(g *agent) {
			all.Go(func() { g.call(t.Context(), codexBody) })
			synctest.Wait()
		}
		end := func(body *io.PipeWriter) {
			io.WriteString(body, codexStream)
			body.Close()
			synctest.Wait()
		}
		ask(busy)
		ask(other)
		first, second := <-bodies, <-bodies
		ask(busy)
		time.Sleep(time.Minute)
		if len(bodies) != 0 || busy.open() != 0 {
			t.Fatalf("%d requests do not wait; %d holds of an agent that has a stream to read", len(bodies), busy.open())
		}
		ask(other)
		if len(bodies) != 0 {
			t.Fatal("a fourth request does not wait")
		}
		end(second)
		end(first)
		for range 2 {
			end(<-bodies)
		}
		all.Wait()
		if busy.open()+other.open() != 0 {
			t.Error("holds are left")
		}

		last, waits := start(t, r), start(t, r)
		ask(last)
		ask(other)
		ask(waits)
		time.Sleep(time.Minute)
		if waits.open() != 1 || last.open()+other.open() != 0 {
			t.Errorf("%d holds of an agent that waits for others", waits.open())
		}
		end(<-bodies)
		if waits.open() != 0 {
			t.Error("an agent stands still, though its request is under way")
		}
		for range 2 {
			end(<-bodies)
		}
		all.Wait()
		if held := waits.Held(); held != time.Minute {
			t.Errorf("it was held for %s", held)
		}
	})
}
