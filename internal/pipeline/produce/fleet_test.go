package produce_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
)

// fleet runs agents side by side, each behind an init of its own, with one relay
// for all: a run without its pipeline. The provider is a function, so that time
// can be the test's.
type fleet struct {
	t       *testing.T
	engine  *still
	memory  *sandboxtest.Engine // below engine
	gateway produce.Gateway
	limit   time.Duration // of an agent
	output  int64         // limit on it; 0 is the default
	agents  map[string]sandboxtest.Program
}

// still is an engine whose frozen boxes still carry bytes: what waits for those
// would stop the time of the test as well. It notes which boxes are frozen.
type still struct {
	*sandboxtest.Engine
	t       *testing.T
	instead func(task string) func(context.Context, sandbox.Streams) (sandbox.Outcome, error) // of running a box

	mu      sync.Mutex
	freezes int
}

// Open makes a box.
func (e *still) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b, err := e.Engine.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	own := &stillBox{Box: b, engine: e}
	if e.instead != nil {
		own.run = e.instead(spec.Labels.Task)
	}
	return own, nil
}

type stillBox struct {
	sandbox.Box
	engine *still
	run    func(context.Context, sandbox.Streams) (sandbox.Outcome, error) // nil runs the box
	frozen bool
}

// Run runs the box.
func (b *stillBox) Run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	if b.run != nil {
		return b.run(ctx, s)
	}
	return b.Box.Run(ctx, s)
}

func (b *stillBox) turn(frozen bool) error {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if b.frozen == frozen {
		return fmt.Errorf("the box is frozen already, or not at all: %v", frozen)
	}
	if b.frozen = frozen; frozen {
		b.engine.freezes++
	}
	return nil
}

func (b *stillBox) Freeze(context.Context) error { return b.turn(true) }
func (b *stillBox) Thaw(context.Context) error   { return b.turn(false) }

// Close closes the box, which may not be frozen any more.
func (b *stillBox) Close(ctx context.Context) error {
	if b.engine.mu.Lock(); b.frozen {
		b.engine.t.Error("a frozen box is closed")
	}
	b.engine.mu.Unlock()
	return b.Box.Close(ctx)
}

// provide answers the relay's requests.
type provide func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f provide) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const (
	fleetKey   = "sk-canary-fleet-0123456789"
	fleetModel = "model-1"
)

// newFleet makes a fleet. change may change the relay's configuration.
func newFleet(t *testing.T, p provide, change func(*relay.Config)) *fleet {
	t.Helper()
	f := &fleet{t: t, limit: time.Minute, agents: map[string]sandboxtest.Program{}}
	cfg := relay.Config{API: relay.Responses, BaseURL: "https://provider.example", Model: fleetModel,
		Keys: access.Keys{Key: fleetKey}, Transport: p}
	if change != nil {
		change(&cfg)
	}
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.gateway.Relay = r
	f.memory = sandboxtest.New(sandboxtest.Config{Programs: f.agents})
	f.engine = &still{Engine: f.memory, t: t}
	t.Cleanup(func() {
		if n := f.memory.Left(); n != 0 {
			t.Errorf("%d boxes and workspaces are left", n)
		}
	})
	return f
}

// run runs the agent of a name.
func (f *fleet) run(ctx context.Context, name string) (produce.Result, error) {
	p := produce.Producer{Engine: f.engine, Gateway: f.gateway, Harness: fixed{plan: harness.Plan{Argv: []string{name}, Workdir: "/workspace",
		Target: "/workspace", TaskFile: "task.json", TokenEnv: "OPENAI_API_KEY", Timeout: f.limit, Relay: &harness.Relay{}, Domains: []string{"a.example"}}}}
	tk, err := task.New(task.Config{ID: "t/" + name, Family: "short_answer", Pack: task.Pack{ID: "p", Version: 1}})
	if err != nil {
		return produce.Result{}, err
	}
	s, err := p.Prepare(ctx, produce.Request{View: tk.Agent(), Image: sandbox.Image{ID: "i"}, Limits: sandbox.Limits{Output: f.output},
		Labels: sandbox.Labels{Run: "fleet", Task: tk.ID(), Attempt: 1}}, nil)
	if err != nil {
		return produce.Result{}, err
	}
	res, err := s.Run(ctx)
	return res, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}

// passes reports what is wrong with the run of an honest agent.
func passes(res produce.Result, err error) error {
	if err != nil || res.Outcome.End != sandbox.Exited || res.Outcome.ExitCode != 0 || string(res.Stdout) != "done" {
		return fmt.Errorf("an honest agent ended with %s, %d: %.300s%.300s, %w", res.Outcome.End, res.Outcome.ExitCode, res.Stdout, res.Stderr, err)
	}
	return nil
}

// caller makes the requests of an agent.
type caller struct {
	token     string
	header    http.Header // of every request, besides
	transport *http.Transport
}

func newCaller(p *sandboxtest.Process) *caller {
	c := &caller{transport: &http.Transport{DialContext: p.Dial, MaxIdleConnsPerHost: 300}}
	for _, v := range p.Env {
		if token, ok := strings.CutPrefix(v, "OPENAI_API_KEY="); ok {
			c.token = token
		}
	}
	return c
}

func (c *caller) close() { c.transport.CloseIdleConnections() }

// begin makes a request with a prompt and returns the response.
func (c *caller) begin(ctx context.Context, prompt string) (*http.Response, error) {
	return c.post(ctx, strings.NewReader(`{"model":"`+fleetModel+`","stream":true,"input":"`+prompt+`"}`))
}

// post makes a request with a body.
func (c *caller) post(ctx context.Context, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+harness.RelayAddress+"/v1/responses", body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.token)
	return c.transport.RoundTrip(req)
}

// ask makes a request and returns the whole answer. A status other than 200 is an
// error.
func (c *caller) ask(ctx context.Context, prompt string) (string, error) {
	return whole(c.begin(ctx, prompt))
}

// send sends a body, and returns an error if it is not answered well.
func (c *caller) send(ctx context.Context, body io.Reader) error {
	_, err := whole(c.post(ctx, body))
	return err
}

// whole reads a response.
func whole(res *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", res.StatusCode, text)
	}
	return string(text) + said(string(text)), err
}

var deltas = regexp.MustCompile(`"delta":"([^"]*)"`)

// said returns the text of a stream, which the relay may cut otherwise than the
// provider.
func said(stream string) string {
	var out strings.Builder
	for _, m := range deltas.FindAllStringSubmatch(stream, -1) {
		out.WriteString(m[1])
	}
	return out.String()
}

// agent is a program that does something with its provider, and then says "done".
func agent(do func(ctx context.Context, c *caller, p *sandboxtest.Process) error) sandboxtest.Program {
	return func(ctx context.Context, p *sandboxtest.Process) int {
		c := newCaller(p)
		defer c.close()
		if err := do(ctx, c, p); err != nil {
			_, _ = fmt.Fprintln(p.Stderr, err)
			return 1
		}
		_, _ = io.WriteString(p.Stdout, "done")
		return 0
	}
}

// asks is an agent that asks a number of times, with a pause after each.
func asks(n int, pause time.Duration) sandboxtest.Program {
	return agent(func(ctx context.Context, c *caller, _ *sandboxtest.Process) error {
		for i := range n {
			prompt := fmt.Sprintf("question %d", i)
			if got, err := c.ask(ctx, prompt); err != nil || !strings.Contains(got, "answer to "+prompt) {
				return fmt.Errorf("%s: %.300s, %w", prompt, got, err)
			}
			time.Sleep(pause)
		}
		return nil
	})
}

// prompt returns the prompt of a request that reached the provider.
func prompt(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	_, text, _ := strings.Cut(string(body), `"input":"`)
	text, _, _ = strings.Cut(text, `"`)
	return text
}

// stream is what an honest provider answers.
func stream(prompt string) string {
	return "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"answer to " + prompt + ".\"}\n\n" + completed(100, 10)
}

// completed is the last event of a stream, with its usage.
func completed(input, output int) string {
	return fmt.Sprintf("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":%d,\"output_tokens\":%d}}}\n\n", input, output)
}

// respond makes a response. Its header fields are NAME: VALUE.
func respond(status int, body io.Reader, fields ...string) *http.Response {
	h := http.Header{}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		h.Add(name, value)
	}
	if !slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "Content-Type") }) {
		h.Set("Content-Type", "text/event-stream")
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(body)}
}

// answers is an honest provider.
func answers(r *http.Request) (*http.Response, error) {
	return respond(200, strings.NewReader(stream(prompt(r)))), nil
}

// all runs agents side by side and returns how each ended.
func (f *fleet) all(names ...string) (results []produce.Result, errs []error) {
	results, errs = make([]produce.Result, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { results[i], errs[i] = f.run(f.t.Context(), name) })
	}
	wg.Wait()
	return results, errs
}

// pipeOf is a response's body that ends with its request.
func pipeOf(r *http.Request) (*io.PipeReader, *io.PipeWriter) {
	from, to := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = to.CloseWithError(context.Canceled) })
	return from, to
}
