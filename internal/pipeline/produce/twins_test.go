package produce_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/egress"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/sandbox/sandboxtest"
)

// held returns how long an agent stood still, by its metadata.
func held(res produce.Result) time.Duration {
	s, _ := strconv.ParseFloat(string(res.Metadata["held_seconds"]), 64)
	return time.Duration(s * float64(time.Second))
}

// TestBusyForTwoMinutes: a provider that says "later" for two minutes does not
// change how agents end: their time stands still, and so do they.
func TestBusyForTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var asked atomic.Int64
		f := newFleet(t, func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			if since := time.Since(began); since > 10*time.Second && since < 130*time.Second {
				return respond(429, strings.NewReader(`{"error":{"message":"slow down"}}`), "Retry-After: 20"), nil
			}
			return answers(r)
		}, nil)
		f.agents["one"], f.agents["two"] = asks(5, 11*time.Second), asks(5, 11*time.Second) // 55 s of a minute
		f.agents["slow"] = asks(6, 11*time.Second)
		results, errs := f.all("one", "two", "slow")
		for i, res := range results[:2] {
			if err := passes(res, errs[i]); err != nil || res.Usage["requests"] != 5 {
				t.Errorf("%v, usage %v", err, res.Usage)
			}
			if h := held(res); h < 110*time.Second || h > 150*time.Second {
				t.Errorf("held for %v", h)
			}
		}
		if out := results[2].Outcome; errs[2] != nil || out.End != "timeout" || results[2].Timeout != time.Minute {
			t.Errorf("an agent that needs more than its own time ended with %+v, %v", out, errs[2])
		}
		if n := f.engine.freezes; n < 3 || asked.Load() > 40 {
			t.Errorf("frozen %d times, the provider was asked %d times", n, asked.Load())
		}
	})
}

// TestBusyForTooLong: an attempt waits for its provider for 30 minutes in all.
// Then the provider has failed it, which is not the agent's doing.
func TestBusyForTooLong(t *testing.T) {
	for name, pause := range map[string]time.Duration{"at once": 0, "twice": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, free := time.Now(), 0
				f := newFleet(t, func(r *http.Request) (*http.Response, error) {
					if pause > 0 && free == 0 && time.Since(began) >= pause {
						free++
						return answers(r)
					}
					return respond(503, strings.NewReader("")), nil
				}, nil)
				f.agents["one"] = asks(2, time.Second)
				res, err := f.run(t.Context(), "one")
				if !errors.Is(err, produce.ErrWaited) || !strings.Contains(err.Error(), "503") {
					t.Fatalf("%+v, %v", res.Outcome, err)
				}
				if took := time.Since(began); took < relay.MaxHold || took > relay.MaxHold+2*time.Minute {
					t.Errorf("it took %v", took)
				}
				if res.Usage["requests"] != int64(free+1) || !strings.Contains(string(res.Raw["network.jsonl"]), "provider_failed") {
					t.Errorf("%v, %s", res.Usage, res.Raw["network.jsonl"])
				}
			})
		})
	}
}

// TestStorm: errors of any kind before the first byte cost an agent neither time
// nor money.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := newFleet(t, func(r *http.Request) (*http.Response, error) {
			n++
			switch n % 6 {
			case 0:
				return answers(r)
			case 1:
				return nil, errors.New("connection refused")
			case 2:
				return respond(529, strings.NewReader("")), nil
			case 3:
				return respond(502, &forever{text: "x"}), nil
			}
			return respond(500, strings.NewReader("{}")), nil
		}, nil)
		f.agents["one"] = asks(5, 10*time.Second)
		res, err := f.run(t.Context(), "one")
		if err := passes(res, err); err != nil || res.Usage["requests"] != 5 || res.Usage["input_tokens"] != 500 || held(res) < 5*10*time.Second {
			t.Errorf("%v, usage %v, held %v", err, res.Usage, held(res))
		}
		if n != 30 || strings.Count(string(res.Raw["exchanges.jsonl"]), `"tries":6`) != 5 {
			t.Errorf("asked %d times: %.2000s", n, res.Raw["exchanges.jsonl"])
		}
	})
}

// TestSlowProvider: a provider may take its time before it answers, and be silent
// for an hour within an answer. That is the agent's time.
func TestSlowProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(20 * time.Minute)
			res := respond(200, nil)
			from, to := pipeOf(r)
			res.Body = from
			text := prompt(r)
			go func() {
				for _, event := range strings.SplitAfter(stream(text), "\n\n") {
					if _, err := io.WriteString(to, event); err != nil {
						return
					}
					time.Sleep(time.Hour)
				}
				_ = to.Close()
			}()
			return res, nil
		}, nil)
		f.agents["one"], f.agents["two"] = asks(1, 0), asks(1, 0)
		f.limit = 4 * time.Hour
		results, errs := f.all("one", "two")
		for i, res := range results {
			if err := passes(res, errs[i]); err != nil || held(res) != 0 || res.Outcome.Duration < 2*time.Hour {
				t.Errorf("%v after %v, held %v", err, res.Outcome.Duration, held(res))
			}
		}
		f.limit = time.Hour
		res, err := f.run(t.Context(), "one")
		if time.Sleep(2 * time.Hour); err != nil || res.Outcome.End != "timeout" || res.Outcome.Duration > time.Hour+time.Minute { // the provider ends too
			t.Errorf("with less time: %+v, %v", res.Outcome, err)
		}
	})
}

// TestManyAtOnce: an agent may have 200 requests under way. None is answered
// before all have reached the provider.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		var arrived atomic.Int64
		all := make(chan struct{})
		f := newFleet(t, func(r *http.Request) (*http.Response, error) {
			if arrived.Add(1) == n {
				close(all)
			}
			<-all
			return answers(r)
		}, func(c *relay.Config) { c.Budget = relay.Budget{Requests: n + 1, Tokens: 1 << 30} })
		f.agents["one"] = agent(func(ctx context.Context, c *caller, _ *sandboxtest.Process) error {
			errs := make([]error, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					want := fmt.Sprintf("question %d.", i)
					got, err := c.ask(ctx, want)
					if err == nil && !strings.Contains(got, "answer to "+want) {
						err = fmt.Errorf("%s: %s", want, got)
					}
					errs[i] = err
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		})
		res, err := f.run(t.Context(), "one")
		if err := passes(res, err); err != nil || res.Usage["requests"] != n || res.Usage["output_tokens"] != 10*n {
			t.Errorf("%v, usage %v", err, res.Usage)
		}
	})
}

// TestLargePrompts: prompts of 10 MB arrive whole, two at a time.
func TestLargePrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, size = 2, 10 << 20
		sum := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:16] }
		f := newFleet(t, func(r *http.Request) (*http.Response, error) {
			return respond(200, strings.NewReader(stream(sum(prompt(r))))), nil
		}, nil)
		f.agents["one"] = agent(func(ctx context.Context, c *caller, _ *sandboxtest.Process) error {
			errs := make([]error, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					text := strings.Repeat(string(rune('a'+i)), size)
					got, err := c.ask(ctx, text)
					if err == nil && !strings.Contains(got, sum(text)) {
						err = fmt.Errorf("prompt %d: %s", i, got)
					}
					errs[i] = err
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		})
		res, err := f.run(t.Context(), "one")
		if err := passes(res, err); err != nil || len(res.Raw["exchanges.jsonl"]) > n*200<<10 {
			t.Errorf("%v, a trace of %d bytes", err, len(res.Raw["exchanges.jsonl"]))
		}
	})
}

// TestSubAgents: conversations of one attempt do not wait for each other, also
// while one of them is silent in the middle of an answer.
func TestSubAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var children sync.WaitGroup
		children.Add(2)
		f := newFleet(t, func(r *http.Request) (*http.Response, error) {
			text := prompt(r)
			if r.Header.Get("X-Openai-Subagent") != "" {
				return respond(200, strings.NewReader(stream(text+" by "+r.Header.Get("Session-Id")))), nil
			}
			res := respond(200, nil)
			from, to := pipeOf(r)
			res.Body = from
			go func() {
				_, _ = io.WriteString(to, stream(text)[:20])
				children.Wait()
				_, _ = io.WriteString(to, stream(text)[20:])
				_ = to.Close()
			}()
			return res, nil
		}, nil)
		f.agents["one"] = agent(func(ctx context.Context, c *caller, p *sandboxtest.Process) error {
			errs := make([]error, 2)
			for i := range errs {
				go func() {
					defer children.Done()
					child := newCaller(p)
					defer child.close()
					id := fmt.Sprintf("child-%d", i)
					child.header = http.Header{"X-Openai-Subagent": {"collab_spawn"}, "Session-Id": {id}}
					for turn := range 5 {
						want := fmt.Sprintf("turn %d", turn)
						if got, err := child.ask(ctx, want); err != nil || !strings.Contains(got, want+" by "+id) {
							errs[i] = fmt.Errorf("%s: %s, %w", id, got, err)
						}
						time.Sleep(time.Second)
					}
				}()
			}
			got, err := c.ask(ctx, "the whole task")
			if !strings.Contains(got, "answer to the whole task") {
				err = fmt.Errorf("%s, %w", got, err)
			}
			return errors.Join(append(errs, err)...)
		})
		res, err := f.run(t.Context(), "one")
		if err := passes(res, err); err != nil || res.Usage["requests"] != 11 || res.Usage["input_tokens"] != 1100 {
			t.Errorf("%v, usage %v", err, res.Usage)
		}
	})
}

// TestSilentConnections: connections to an allowed domain may be silent for an
// hour, those of a tunnel too.
func TestSilentConnections(t *testing.T) {
	https := httptest.NewTLSServer(nil) // for its certificate
	https.Close()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, answers, nil)
		f.limit = 3 * time.Hour
		serve := func(c net.Conn) {
			defer c.Close()
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			time.Sleep(time.Hour)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
		}
		f.gateway.Proxy = egress.Config{
			Own: func() ([]netip.Addr, error) { return nil, nil },
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
			},
			Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
				near, far := initproc.Pipe(to.String())
				if to.Port() == 443 {
					go serve(tls.Server(far, &tls.Config{Certificates: https.TLS.Certificates}))
				} else {
					go serve(far)
				}
				return near, nil
			},
		}
		f.agents["one"] = agent(func(ctx context.Context, _ *caller, p *sandboxtest.Process) error {
			through := &http.Transport{DialContext: p.Dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
				Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: harness.ProxyAddress})}
			defer through.CloseIdleConnections()
			var wg sync.WaitGroup
			errs := make([]error, 2)
			for i, address := range []string{"http://a.example/", "https://a.example/"} {
				wg.Go(func() {
					req, _ := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
					res, err := through.RoundTrip(req)
					if err != nil {
						errs[i] = err
						return
					}
					defer res.Body.Close()
					if text, err := io.ReadAll(res.Body); err != nil || string(text) != "late" {
						errs[i] = fmt.Errorf("%s: %d %q, %w", address, res.StatusCode, text, err)
					}
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		})
		res, err := f.run(t.Context(), "one")
		if err := passes(res, err); err != nil || string(res.Metadata["network"]) != `{"proxy_allowed":2}` || res.Outcome.Duration < time.Hour {
			t.Errorf("%v, network %s, took %v", err, res.Metadata["network"], res.Outcome.Duration)
		}
	})
}
