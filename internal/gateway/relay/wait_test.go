package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/gateway/pace"
)

// with makes a relay whose provider is a function, for tests with a clock of
// their own.
func with(t *testing.T, api API, f roundTrip) *Relay {
	cfg := config(api, "https://provider.example")
	cfg.Transport = f
	return newRelay(t, cfg)
}

// TestBackOff: a provider that says "later" for two minutes costs the agent no
// time, and an attempt beside it waits too.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var asked atomic.Int64
		r := with(t, Responses, func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			if time.Since(began) < 2*time.Minute {
				return respond(429, "Retry-After: 20", `{"error":{"message":"slow down"}}`), nil
			}
			return respond(200, eventStream, codexStream), nil
		})
		first, second := start(t, r), start(t, r)
		var wg sync.WaitGroup
		wg.Go(func() {
			if w := first.call(t.Context(), codexBody); w.Code != 200 || w.Body.String() != codexStream {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
		synctest.Wait()
		for range 5 { // requests of one attempt overlap
			wg.Go(func() { second.call(t.Context(), codexBody) })
		}
		synctest.Wait()
		if asked.Load() != 1 {
			t.Errorf("the provider was asked %d times though it wants a pause", asked.Load())
		}
		wg.Wait()
		took := time.Since(began)
		for _, g := range []*agent{first, second} {
			if g.Held() < 100*time.Second || g.Held() > took || g.open() != 0 || g.frozen == 0 || g.Err() != nil {
				t.Errorf("held %v of %v, %d holds open, %v", g.Held(), took, g.open(), g.Err())
			}
		}
		if took > 3*time.Minute || first.Usage()["requests"] != 1 {
			t.Errorf("took %v, %v", took, first.Usage())
		}
	})
}

// TestOwnErrorsHoldNobodyElse: an agent whose requests make the provider fail
// does not make others wait, an outage that others see does.
func TestOwnErrorsHoldNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool // all requests fail, also the relay's own
		broken := func(r *http.Request) bool {
			body, _ := io.ReadAll(r.Body)
			return down.Load() || strings.Contains(string(body), "evil")
		}
		r := with(t, Responses, func(r *http.Request) (*http.Response, error) {
			if broken(r) {
				return respond(500, "", ""), nil
			}
			return respond(200, eventStream, codexStream), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		evil, honest := start(t, r), start(t, r)
		go evil.call(ctx, strings.Replace(codexBody, "hi", "evil", 1))
		time.Sleep(5 * time.Minute)
		for range 20 {
			honest.call(t.Context(), codexBody)
			time.Sleep(time.Second)
		}
		if honest.Held() != 0 || honest.Usage()["requests"] != 20 {
			t.Errorf("held %v, %v", honest.Held(), honest.Usage())
		}
		if !errors.Is(evil.Err(), ErrRefused) {
			t.Errorf("what the provider fails at alone is still asked: %v", evil.Err())
		}
		down.Store(true)
		for range 2 {
			go start(t, r).call(ctx, codexBody)
		}
		shared := false
		for range 120 {
			time.Sleep(time.Second)
			shared = shared || r.pace.Left() > 0
		}
		if !shared {
			t.Error("an outage that two attempts see is not shared")
		}
		cancel()
		synctest.Wait()
	})
}

func TestMaxHold(t *testing.T) {
	for name, f := range map[string]roundTrip{
		"overloaded":    func(*http.Request) (*http.Response, error) { return respond(529, "", ""), nil },
		"long wait":     func(*http.Request) (*http.Response, error) { return respond(429, "Retry-After: 999999999", ""), nil },
		"negative wait": func(*http.Request) (*http.Response, error) { return respond(503, "Retry-After: -1e99", ""), nil },
		"no connection": func(*http.Request) (*http.Response, error) { return nil, errors.New("refused " + key) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			g := start(t, with(t, Messages, func(r *http.Request) (*http.Response, error) { asked.Add(1); return f(r) }))
			began := time.Now()
			w := g.call(t.Context(), claudeBody)
			if took := time.Since(began); took < MaxHold || took > MaxHold+time.Minute || g.Held() != MaxHold || g.open() != 0 {
				t.Errorf("%s: took %v, held %v, %d holds open", name, took, g.Held(), g.open())
			}
			if err := g.Err(); w.Code != 403 || err == nil || errors.Is(err, ErrRejected) || strings.Contains(err.Error()+w.Body.String(), key) {
				t.Errorf("%s: %d %s, %v", name, w.Code, w.Body, err)
			}
			<-g.Failed()
			before := asked.Load()
			if w := g.call(t.Context(), claudeBody); w.Code != 403 || asked.Load() != before {
				t.Errorf("%s: a failed attempt continues: %d", name, w.Code)
			}
		})
	}
}

// TestNotice: the operator learns why agents wait, and a wrong host at once,
// without the words of errors and not for every try.
func TestNotice(t *testing.T) {
	for name, c := range map[string]struct {
		answer roundTrip
		want   string
		first  time.Duration // at the latest
	}{
		"busy":       {func(*http.Request) (*http.Response, error) { return respond(529, "", ""), nil }, "the provider at provider.example answers with the status 529; agents wait, each for at most 30m0s", 10 * time.Second},
		"wrong host": {func(*http.Request) (*http.Response, error) { return nil, &net.DNSError{Err: key, IsNotFound: true} }, "there is no host of this name", 0},
		"silent":     {func(*http.Request) (*http.Response, error) { return nil, errors.New(key) }, "cannot be reached;", 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var told []string
			var at time.Time
			cfg := config(Messages, "https://provider.example")
			cfg.Transport = c.answer
			cfg.Notice = func(s string) {
				if len(told) == 0 {
					at = time.Now()
				}
				told = append(told, s)
			}
			began := time.Now()
			start(t, newRelay(t, cfg)).call(t.Context(), claudeBody)
			if len(told) < 2 || len(told) > 7 || at.Sub(began) > c.first || !strings.Contains(told[0], c.want) || strings.Contains(strings.Join(told, ""), key) {
				t.Errorf("%s: after %v: %q", name, at.Sub(began), told)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // one failure is nothing to be told
		asked := 0
		cfg := config(Messages, "https://provider.example")
		cfg.Notice = func(s string) { t.Errorf("told %q", s) }
		cfg.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			if asked++; asked == 1 {
				return respond(529, "", ""), nil
			}
			return respond(200, eventStream, claudeStream), nil
		})
		start(t, newRelay(t, cfg)).call(t.Context(), claudeBody)
	})
}

// TestSilentStream: an hour without a byte is no fault.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		g := start(t, with(t, Responses, func(*http.Request) (*http.Response, error) {
			response := respond(200, eventStream, "")
			response.Body = from
			return response, nil
		}))
		go func() {
			for _, event := range strings.SplitAfter(codexStream, "\n\n") {
				time.Sleep(time.Hour)
				io.WriteString(to, event)
			}
			to.Close()
		}()
		if w := g.call(t.Context(), codexBody); w.Body.String() != codexStream || g.Held() != 0 {
			t.Errorf("%s, held %v", w.Body, g.Held())
		}
	})
}

// rejection is an answer of the provider's to an agent, and one to a request of
// the relay's own.
type rejection struct {
	name   string
	status int
	body   string
	own    int // the status of the other one
	says   string
	why    error // that the attempt's error wraps
}

// TestRejected: what the provider rejects ends the run only if it rejects the
// relay's own request too. Else the agent has failed: it is not retried as if
// something had happened to it.
func TestRejected(t *testing.T) {
	unknown := `{"error":{"code":"model_not_found","message":"` + key + `"}}`
	for _, c := range []rejection{
		{"key", 401, key, 401, "the key is not accepted (status 401)", ErrRejected},
		{"model", 400, unknown, 400, `it does not know the model "model-1" (status 400)`, ErrRejected},
		{"other model", 404, "", 404, `it does not know the model "model-1", or has nothing at this address: check the model and the base URL (status 404)`, ErrRejected},
		{"Google's key", 400, `{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, 400, "the key is not accepted (status 400)", ErrRejected},
		{"credit", 429, `{"error":{"code":"insufficient_quota"}}`, 429, "has no credit", ErrRejected},
		{"only the agent's", 401, key, 200, "though the key and the model are accepted", ErrRefused},
		{"only the agent's model", 404, "", 400, "with the status 404", ErrRefused},
		{"only the agent's credit", 429, `{"error":{"code":"insufficient_quota"}}`, 200, "for lack of credit", ErrRefused},
		{"provider is down", 403, key, 500, "status 403, and could not be asked", errUnconfirmed},
		{"provider has no time", 403, key, 429, "status 403, and could not be asked", errUnconfirmed},
		{"invalid request", 400, `{"error":{"message":"too long"}}`, 200, "", nil},
		{"too large for the rate", 429, `{"error":{"code":"rate_limit_exceeded","message":"Request too large for m on tokens per min (TPM): Limit 9"}}`, 200, "", nil},
		{"unprocessable", 422, `<html>`, 200, "", nil},
	} {
		for api := range apis {
			synctest.Test(t, func(t *testing.T) { testRejected(t, api, c) })
		}
	}
}

func testRejected(t *testing.T, api API, c rejection) {
	var own, all atomic.Int64
	r := with(t, api, func(r *http.Request) (*http.Response, error) {
		all.Add(1)
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "Say OK.") {
			own.Add(1)
			return respond(c.own, "", c.body), nil
		}
		return respond(c.status, "", c.body), nil
	})
	for n := int64(1); n <= 2; n++ {
		g := start(t, r)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				w := g.call(t.Context(), apis[api].body)
				if said := fmt.Sprint(w.Body, w.Header()); strings.Contains(said, key) || api == Responses && w.Code != 400 {
					t.Errorf("%s, %s: %d %s", api, c.name, w.Code, said)
				}
			})
		}
		wg.Wait()
		err := g.Err()
		if !errors.Is(err, c.why) || (err != nil) != (c.why != nil) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s, %s: %v", api, c.name, err)
		}
		if said := fmt.Sprint(err, string(g.kept())); strings.Contains(said, key) {
			t.Errorf("%s, %s: the key is in %s", api, c.name, said)
		}
		if most := n * map[bool]int64{false: 1, true: confirmTries}[errors.Is(c.why, errUnconfirmed)]; own.Load() > most {
			t.Errorf("%s, %s: the relay asked %d times for %d attempts", api, c.name, own.Load(), n)
		}
	}
	if c.why == nil && all.Load() != 10 {
		t.Errorf("%s, %s: %d requests for 10", api, c.name, all.Load())
	}
}

// TestOnlyOneRequestFails: an agent that finds what the provider cannot answer
// gets no retry of its attempt, an agent in an outage does.
func TestOnlyOneRequestFails(t *testing.T) {
	for name, c := range map[string]struct {
		agents func() (*http.Response, error)
		own    int
		fault  bool // the agent's
	}{
		"poison":   {func() (*http.Response, error) { return respond(500, "", ""), nil }, 200, true},
		"closes":   {func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 200, true},
		"outage":   {func() (*http.Response, error) { return respond(500, "", ""), nil }, 500, false},
		"overload": {func() (*http.Response, error) { return respond(429, "", ""), nil }, 200, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			g := start(t, with(t, Responses, func(r *http.Request) (*http.Response, error) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), "Say OK.") {
					return respond(c.own, "", ""), nil
				}
				return c.agents()
			}))
			w := g.call(t.Context(), codexBody)
			if err := g.Err(); w.Code != 400 || err == nil || errors.Is(err, ErrRefused) != c.fault || time.Since(began) > MaxHold+2*time.Minute || g.open() != 0 || c.fault && time.Since(began) > time.Minute {
				t.Errorf("%s: %d, %v after %v", name, w.Code, err, time.Since(began))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // an outage that ends just then
		began := time.Now()
		g := start(t, with(t, Responses, func(*http.Request) (*http.Response, error) {
			if time.Since(began) < MaxHold {
				return respond(500, "", ""), nil
			}
			return respond(200, eventStream, codexStream), nil
		}))
		if w := g.call(t.Context(), codexBody); w.Code != 200 || g.Err() != nil {
			t.Errorf("after the outage: %d, %v", w.Code, g.Err())
		}
	})
}

// TestOwnLimitsHoldNobodyElse: an agent whose requests are too much for the
// provider, whatever the time, holds up those beside it for a moment alone. One
// limit that all meet holds up all.
func TestOwnLimitsHoldNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := with(t, Responses, func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), "evil") {
				return respond(429, "Retry-After: 600", ""), nil
			}
			time.Sleep(time.Second)
			return respond(200, eventStream, codexStream), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		honest := start(t, r)
		for range 3 { // and they take turns
			evil := start(t, r)
			wg.Go(func() {
				for ctx.Err() == nil {
					request, stop := context.WithTimeout(ctx, 5*time.Second)
					evil.call(request, strings.Replace(codexBody, "hi", "evil", 1))
					stop()
				}
			})
		}
		for began := time.Now(); time.Since(began) < 9*time.Minute; time.Sleep(time.Second) {
			honest.call(t.Context(), codexBody)
		}
		// A minute for each, another for a request of each that was sent before a limit and
		// answered after it, and the seconds of the request under way at each; without an
		// end it would be all nine.
		if honest.Held() > 7*pace.MaxWait {
			t.Errorf("held %v of 9 minutes", honest.Held())
		}
		cancel()
		wg.Wait()
	})
}

func TestBudgets(t *testing.T) {
	for api := range apis {
		t.Run(string(api), func(t *testing.T) { testBudgets(t, api) })
	}
}

// testBudgets asks for 50 answers at a time.
func testBudgets(t *testing.T, api API) {
	for name, c := range map[string]struct {
		budget Budget
		passes int64
	}{
		"requests": {Budget{Requests: 3}, 3},
		"tokens":   {Budget{Tokens: 250}, 3},  // of 110 each
		"cost":     {Budget{Cost: 0.0033}, 2}, // of 0.00164 + …
		"none":     {Budget{}, 50},
	} {
		var running, most, asked atomic.Int64
		cfg := config(api, "https://provider.example")
		cfg.Budget, cfg.Prices = c.budget, map[string]Price{model: {Input: 10, CachedInput: 1, Output: 100}}
		cfg.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Millisecond)
			running.Add(-1)
			return respond(200, eventStream, apis[api].stream), nil
		})
		g := start(t, newRelay(t, cfg))
		var refused atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if w := g.call(t.Context(), apis[api].body); w.Code >= 400 && w.Code < 500 && strings.Contains(w.Body.String(), "budget of this attempt is spent") {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if want := 50 - refused.Load(); asked.Load() != want || (name != "cost" && want != c.passes) || want > c.passes+1 {
			t.Errorf("%s: %d requests reached the provider, %d were refused", name, asked.Load(), refused.Load())
		}
		if name != "none" && (!g.Spent() || name != "requests" && most.Load() > 1) || name == "none" && g.Spent() {
			t.Errorf("%s: spent is %v, up to %d requests at a time", name, g.Spent(), most.Load())
		}
	}
}

// TestCacheWrites: what is written to a cache has a price of its own.
func TestCacheWrites(t *testing.T) {
	cfg := config(Messages, "https://provider.example")
	cfg.Prices = map[string]Price{model: {Input: 4, CachedInput: 1, CacheWrite: 5, Output: 20}}
	cfg.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
		return respond(200, eventStream, strings.Replace(claudeStream, `"input_tokens":60`, `"input_tokens":10,"cache_creation_input_tokens":50`, 1)), nil
	})
	g := start(t, newRelay(t, cfg))
	g.call(t.Context(), claudeBody)
	u := g.Usage()
	if u["input_tokens"] != 100 || u["cached_input_tokens"] != 40 || u["cache_write_input_tokens"] != 50 || u["cost_microusd"] != 10*4+40*1+50*5+10*20 {
		t.Errorf("%v", u)
	}
}

// TestCountingTokens: a count costs nothing, and a server that cannot count is no
// reason to end an attempt. A model that it does not know is.
func TestCountingTokens(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		fails  bool
	}{
		"counts":        {200, `{"input_tokens":1000}`, false},
		"cannot":        {404, `<html>`, false},
		"unknown model": {404, `{"error":{"code":"model_not_found"}}`, true},
	} {
		base := provider(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		})
		g := start(t, newRelay(t, config(Messages, base))).listen()
		code, _ := g.post(pathCount, claudeBody)
		if u := g.Usage(); (g.Err() != nil) != c.fails || !c.fails && code == 200 != (c.status == 200) || u["requests"] != 1 || u["input_tokens"]+u["output_tokens"] != 0 {
			t.Errorf("%s: %d, %v, %v", name, code, u, g.Err())
		}
	}
}

// TestLeavingCostsToo: an agent that leaves before the usage arrives has spent
// its budget nevertheless.
func TestLeavingCostsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(Responses, "https://provider.example")
		cfg.Budget.Tokens = 1000
		cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			response := respond(200, eventStream, "")
			from, to := io.Pipe()
			context.AfterFunc(r.Context(), func() { to.CloseWithError(context.Canceled) })
			go func() {
				for range 40 {
					io.WriteString(to, "event: response.output_text.delta\ndata: {\"delta\":\""+strings.Repeat("x", 400)+"\"}\n\n")
				}
			}()
			response.Body = from
			return response, nil
		})
		g := start(t, newRelay(t, cfg))
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			g.call(ctx, codexBody)
			cancel()
		}
		if used := g.Usage()["output_tokens"]; used < 1000 || !g.Spent() {
			t.Errorf("%d tokens are counted, spent is %v", used, g.Spent())
		}
	})
}
