package produce_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
)

// forever yields a text without an end.
type forever struct{ text string }

func (e *forever) Read(p []byte) (int, error) {
	n := copy(p, e.text)
	for n < len(p) {
		n += copy(p[n:], p[:n])
	}
	return n, nil
}

// hostile answers the prompts of agents that are called evil with f, and all
// others honestly.
func hostile(f provide) provide {
	return func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte("evil")) {
			return f(r)
		}
		return answers(r)
	}
}

// beside runs the agent "evil" beside an honest one, which must notice nothing,
// and returns what came of it.
func (f *fleet) beside() (produce.Result, error) {
	f.t.Helper()
	f.agents["honest"] = asks(10, 5*time.Second)
	results, errs := f.all("honest", "evil")
	time.Sleep(time.Minute) // what the test plays ends too
	if err := passes(results[0], errs[0]); err != nil || held(results[0]) != 0 || results[0].Usage["requests"] != 10 {
		f.t.Errorf("beside: %v, held %v, usage %v", err, held(results[0]), results[0].Usage)
	}
	return results[1], errs[1]
}

// repeats is an agent that asks again and again until it is refused, and prints
// what it hears.
func repeats(ctx context.Context, c *caller, p *sandboxtest.Process) error {
	for {
		got, err := c.ask(ctx, "evil")
		_, _ = fmt.Fprintf(p.Stderr, "%.4000s\n", got)
		if err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// once is an agent that asks once.
func once(ctx context.Context, c *caller, p *sandboxtest.Process) error {
	got, err := c.ask(ctx, "evil")
	_, _ = fmt.Fprintf(p.Stderr, "%.4000s\n", got)
	return err
}

// TestHostileProviders: whatever a provider answers is bounded, its end is named,
// and agents beside that one do not notice.
func TestHostileProviders(t *testing.T) {
	var member bytes.Buffer // of which packed data may have many
	z := gzip.NewWriter(&member)
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	for name, tt := range map[string]struct {
		answer provide
		end    sandbox.End // "" if the provider fails
		reason string      // in the ledger, "" for none
	}{
		"endless event": {body("data: xxxxxxxx", true), sandbox.Exited, "response_too_long"},
		"cut stream":    {body("event: response.output_text.delta\ndata: {}\n\n", false), sandbox.Exited, "response_incomplete"},
		"bomb":          {body(strings.Repeat(member.String(), 64), false, "Content-Encoding: gzip"), "", "provider_failed"},
		"page":          {body("<html>", false, "Content-Type: text/html"), "", "provider_failed"},
		"redirect": {func(*http.Request) (*http.Response, error) {
			return respond(307, strings.NewReader(""), "Location: https://evil.example/"), nil
		}, "", "provider_failed"},
		"silent": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, sandbox.TimedOut, "agent_left"},
		"slow": {func(r *http.Request) (*http.Response, error) {
			res := respond(200, nil)
			from, to := pipeOf(r)
			go func() {
				for err := error(nil); err == nil; _, err = to.Write([]byte("d")) {
					time.Sleep(10 * time.Second)
				}
			}()
			res.Body = from
			return res, nil
		}, sandbox.TimedOut, "agent_left"},
		"honest": {answers, sandbox.Exited, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, hostile(tt.answer), nil)
				f.agents["evil"] = agent(once)
				res, err := f.beside()
				raw := res.Raw
				if (err != nil) != (tt.end == "") || res.Outcome.End != tt.end {
					t.Errorf("it ended with %+v, %v: %.500s", res.Outcome, err, res.Stderr)
				}
				if got := string(raw["network.jsonl"]); !strings.Contains(got, tt.reason) || (tt.reason == "") == strings.Contains(got, "reason") {
					t.Errorf("ledger %s", got)
				}
				if strings.Contains(string(res.Stderr), "Location") || len(raw["exchanges.jsonl"]) > 200<<10 {
					t.Errorf("the agent got %s; a trace of %d bytes", res.Stderr, len(raw["exchanges.jsonl"]))
				}
			})
		})
	}
}

// body answers with a text, once or for ever.
func body(text string, ever bool, fields ...string) provide {
	return func(*http.Request) (*http.Response, error) {
		if ever {
			return respond(200, &forever{text: text}, fields...), nil
		}
		return respond(200, strings.NewReader(text), fields...), nil
	}
}

// TestReflectedKey: a provider that repeats the key, in every form and cut by the
// edges of events, does not make it known to the agent or to what is stored.
func TestReflectedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forms := []string{fleetKey, hex.EncodeToString([]byte(fleetKey)), base64.StdEncoding.EncodeToString([]byte(fleetKey))}
		n := 0
		f := newFleet(t, hostile(func(r *http.Request) (*http.Response, error) {
			form := forms[n%len(forms)]
			n++
			res := respond(200, nil, "X-Request-Id: "+form)
			from, to := pipeOf(r)
			go func() {
				for _, c := range "data: {\"delta\":\"" + form + "\"}\n\n" + completed(1, 1) {
					_, _ = io.WriteString(to, string(c))
				}
				_ = to.Close()
			}()
			res.Body = from
			return res, nil
		}), func(c *relay.Config) { c.Budget.Requests = 11 })
		f.agents["evil"] = agent(repeats)
		res, err := f.beside()
		if err != nil || res.Outcome.End != produce.OverBudget || n != 11 {
			t.Fatalf("%+v, %v after %d requests", res.Outcome, err, n)
		}
		all := fmt.Sprintf("%s %s %s", res.Stdout, res.Stderr, res.Raw)
		for _, form := range forms {
			if strings.Contains(all, form) {
				t.Errorf("%s is known: %.2000s", form, all)
			}
		}
		if strings.Count(string(res.Stderr), "delta") != 11 {
			t.Errorf("the agent heard %s", res.Stderr)
		}
	})
}

// TestLyingUsage: usage that cannot be right counts as what the lengths say.
// Whatever it says, an agent that it makes ask without end is stopped by each kind
// of budget.
func TestLyingUsage(t *testing.T) {
	lies := []string{
		`{"input_tokens":950000,"output_tokens":1,"total_tokens":950001}`, // makes agents compact
		`{"input_tokens":-5,"output_tokens":-1}`, `{"input_tokens":0,"output_tokens":0}`, `null`, `[]`, `{"input_tokens":"many"}`,
		`{"input_tokens":9007199254740993,"output_tokens":1e300}`, `{"input_tokens":1,"input_tokens_details":{"cached_tokens":99999},"output_tokens":1}`,
	}
	price := relay.Price{Input: 1, CachedInput: 0.1, Output: 10}
	for name, tt := range map[string]struct {
		budget relay.Budget
		most   int // requests
	}{
		"requests": {relay.Budget{Requests: 40}, 40},
		"tokens":   {relay.Budget{Tokens: 3_000_000}, 40},
		"cost":     {relay.Budget{Cost: 3}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				f := newFleet(t, hostile(func(*http.Request) (*http.Response, error) {
					n++
					return respond(200, strings.NewReader("data: {\"type\":\"response.completed\",\"response\":{\"usage\":"+lies[n%len(lies)]+"}}\n\n")), nil
				}), func(c *relay.Config) {
					c.Budget, c.Prices = tt.budget, map[string]relay.Price{fleetModel: price}
				})
				f.agents["evil"] = agent(repeats)
				res, err := f.beside()
				if err != nil || res.Outcome.End != produce.OverBudget || n > tt.most || res.Usage["requests"] != int64(n) {
					t.Errorf("%+v, %v after %d requests, usage %v", res.Outcome, err, n, res.Usage)
				}
				for count, v := range res.Usage {
					if v < 0 || v > 1<<40 {
						t.Errorf("%s is %d", count, v)
					}
				}
			})
		})
	}
}

// TestHostileAgents: an agent that misuses its way to the provider ends by name,
// and agents beside it do not notice.
func TestHostileAgents(t *testing.T) {
	for name, tt := range map[string]struct {
		agent  func(ctx context.Context, c *caller, p *sandboxtest.Process) error
		end    sandbox.End
		denied string // a reason
	}{
		"slow request": {func(ctx context.Context, _ *caller, p *sandboxtest.Process) error {
			conn, err := p.Dial(ctx, "tcp", harness.RelayAddress)
			for ; err == nil; _, err = conn.Write([]byte("P")) {
				time.Sleep(10 * time.Second)
			}
			return err
		}, sandbox.TimedOut, ""},
		"slow body": {func(ctx context.Context, c *caller, _ *sandboxtest.Process) error {
			from, to := io.Pipe()
			defer from.Close()
			go func() {
				for err := error(nil); err == nil; _, err = to.Write([]byte(" ")) {
					time.Sleep(10 * time.Second)
				}
			}()
			return c.send(ctx, from)
		}, sandbox.TimedOut, "body_incomplete"},
		"endless body": {func(ctx context.Context, c *caller, _ *sandboxtest.Process) error {
			return c.send(ctx, &forever{text: " "})
		}, sandbox.Exited, "body_too_large"},
		"other token": {func(ctx context.Context, c *caller, p *sandboxtest.Process) error {
			c.token = fleetKey
			return once(ctx, c, p)
		}, sandbox.Exited, "wrong_token"},
		"leaves everything": {func(ctx context.Context, c *caller, _ *sandboxtest.Process) error {
			for range 200 {
				go func() { _, _ = c.ask(ctx, "evil") }()
			}
			time.Sleep(time.Second)
			return nil
		}, sandbox.Exited, "agent_left"},
		"floods its output": {func(_ context.Context, _ *caller, p *sandboxtest.Process) error {
			_, err := io.Copy(p.Stdout, &forever{text: "x"})
			return err
		}, sandbox.OutputLimit, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, hostile(func(r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}), nil)
				f.agents["evil"] = agent(tt.agent)
				res, err := f.beside()
				if err != nil || res.Outcome.End != tt.end {
					t.Errorf("it ended with %+v, %v: %s", res.Outcome, err, res.Stderr)
				}
				if got := string(res.Raw["network.jsonl"]); !strings.Contains(got, tt.denied) {
					t.Errorf("ledger %s", got)
				}
			})
		})
	}
}
