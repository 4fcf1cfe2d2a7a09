package distant_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/allowance"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/relay/distant"
)

const (
	key   = "sk-canary-distant-0123456789"
	token = "token-of-this-attempt"
	body  = `{"model":"model-1","stream":true,"store":false,"input":"hi"}`
	delta = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n"
	last  = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":100,\"output_tokens\":10}}}\n\n"
)

// upstream is the provider.
type upstream func(*http.Request) (*http.Response, error)

func (f upstream) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(status int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body)}
}

// bench is a desk behind TLS.
type bench struct {
	t      testing.TB
	desk   *distant.Desk
	server *httptest.Server
	client *http.Transport
}

func newBench(t testing.TB, up upstream, change func(*relay.Config)) *bench {
	t.Helper()
	cfg := relay.Config{API: relay.Responses, BaseURL: "https://provider.example", Keys: access.Keys{Key: key}, Model: "model-1", Transport: up}
	if change != nil {
		change(&cfg)
	}
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, desk: distant.NewDesk(r)}
	b.server = httptest.NewTLSServer(b.desk)
	t.Cleanup(b.server.Close)
	whole, _ := b.server.Client().Transport.(*http.Transport)
	b.client = &http.Transport{TLSClientConfig: whole.TLSClientConfig, DisableCompression: true}
	t.Cleanup(b.client.CloseIdleConnections)
	return b
}

// agent is one whose provider is at the desk.
type agent struct {
	*distant.Provider
	t       testing.TB
	address string
	stop    func()

	mu      sync.Mutex
	holds   int
	refuses error // to be held
}

// start serves an agent with a ticket until stop.
func (b *bench) start(ticket string) *agent {
	b.t.Helper()
	g := &agent{t: b.t}
	g.Provider = distant.Way{Transport: b.client, Base: b.server.URL, Ticket: ticket}.Open(relay.Options{Token: token, Hold: g.hold})
	g.serveWith(g.Provider)
	return g
}

// server answers an agent's connections.
type server interface {
	Serve(ctx context.Context, ln net.Listener) error
}

// serveWith serves the agent on this machine until stop.
func (g *agent) serveWith(p server) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	g.address = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				g.t.Error(err)
			}
		case <-time.After(awaittest.Hung):
			g.t.Error("the provider does not end")
		}
	})
	g.t.Cleanup(g.stop)
}

func (g *agent) hold(context.Context) (func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuses != nil {
		return nil, g.refuses
	}
	g.holds++
	return func() { g.mu.Lock(); g.holds--; g.mu.Unlock() }, nil
}

func (g *agent) held() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holds
}

// ask makes a request.
func (g *agent) ask(ctx context.Context) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.address+"/v1/responses", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return http.DefaultTransport.RoundTrip(r)
}

// whole makes a request and reads the answer.
func (g *agent) whole() (int, string, error) {
	res, err := g.ask(g.t.Context())
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// failed waits for the end of the attempt.
func (g *agent) failed() error {
	g.t.Helper()
	select {
	case <-g.Failed():
	case <-time.After(awaittest.Hung):
		g.t.Fatal("the attempt does not fail")
	}
	return g.Err()
}

func answers(*http.Request) (*http.Response, error) {
	return respond(200, strings.NewReader(delta+last)), nil
}

// slow is a provider that answers with a stream that the test writes.
func slow() (upstream, chan *io.PipeWriter, chan struct{}) {
	bodies, left := make(chan *io.PipeWriter, 10), make(chan struct{}, 10)
	return func(r *http.Request) (*http.Response, error) {
		from, to := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = to.CloseWithError(context.Canceled); left <- struct{}{} })
		bodies <- to
		return respond(200, from), nil
	}, bodies, left
}

// TestStreamed: an agent gets each event of an answer when it comes, not when the answer
// is whole.
func TestStreamed(t *testing.T) {
	up, bodies, _ := slow()
	b := newBench(t, up, nil)
	v := b.desk.Admit("ticket", nil)
	g := b.start("ticket")
	res, err := g.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	to, lines := <-bodies, bufio.NewReader(res.Body)
	for range 3 {
		if _, err := io.WriteString(to, delta); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, _ = io.WriteString(to, last)
	to.Close()
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != last {
		t.Errorf("%q, %v", rest, err)
	}
	g.stop()
	if k := v.End(); k.Usage()["output_tokens"] != 10 || k.Err() != nil || g.Err() != nil {
		t.Errorf("%v, %v, %v", k.Usage(), k.Err(), g.Err())
	}
}

// TestDialects: an agent elsewhere speaks what the relay of its run does, and nothing else;
// the token in a query goes to no provider.
func TestDialects(t *testing.T) {
	const answer = "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"choices\":[{\"finish_reason\":\"stop\"}],\"usageMetadata\":{\"promptTokenCount\":9},\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":0}}\n\n"
	var target string
	b := newBench(t, func(r *http.Request) (*http.Response, error) {
		target = r.URL.RequestURI()
		return respond(200, strings.NewReader(answer)), nil
	}, func(c *relay.Config) { c.API, c.Also = relay.Chat, []relay.API{relay.Gemini} })
	v := b.desk.Admit("ticket", nil)
	g := b.start("ticket")
	for path, c := range map[string]struct{ body, reaches string }{
		"/v1/chat/completions": {`{"model":"model-1","stream":true,"messages":[]}`, "/v1/chat/completions"},
		"/v1beta/models/model-1:streamGenerateContent?alt=sse&key=" + token: {`{"contents":[]}`, "/v1beta/models/model-1:streamGenerateContent?alt=sse"},
		"/v1/responses": {body, ""},
	} {
		target = ""
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.address+path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if target != c.reaches || err != nil || (string(text) == answer) != (c.reaches != "") {
			t.Errorf("%s reaches %q and gets %s, %v", path, target, text, err)
		}
	}
	g.stop()
	if u := v.End().Usage(); u["requests"] != 2 || u["input_tokens"] != 18 {
		t.Errorf("%v", u)
	}
}

// TestHeld: an agent that has to wait for its provider stands still meanwhile. One that
// cannot be stopped fails.
func TestHeld(t *testing.T) {
	g := &agent{}
	asked := 0
	up := func(r *http.Request) (*http.Response, error) {
		if asked++; asked == 1 {
			return respond(503, strings.NewReader("")), nil
		}
		if g.held() != 1 {
			t.Errorf("%d holds while the agent waits", g.held())
		}
		return answers(r)
	}
	b := newBench(t, up, nil)
	v := b.desk.Admit("ticket", nil)
	g = b.start("ticket")
	if code, text, err := g.whole(); code != 200 || text != delta+last || err != nil {
		t.Errorf("%d %s, %v", code, text, err)
	}
	awaittest.Until(t, "the agent to go on", func() bool { return g.held() == 0 })
	g.stop()
	if v.End().Held() == 0 {
		t.Error("nobody knows that it was held")
	}

	asked = 0
	stuck := b.desk.Admit("stuck", nil)
	h := b.start("stuck")
	h.refuses = errors.New("the engine is busy")
	if code, _, err := h.whole(); code == 200 {
		t.Errorf("an agent that cannot be held goes on: %v", err)
	}
	if err := h.failed(); err.Error() != "the engine is busy" {
		t.Error(err)
	}
	h.stop()
	stuck.End()
}

// TestEnds: what ends an attempt is known beside the agent before the agent hears of it.
func TestEnds(t *testing.T) {
	reject := func(*http.Request) (*http.Response, error) {
		res := respond(401, strings.NewReader(`{"error":{"code":"invalid_api_key"}}`))
		res.Header.Set("Content-Type", "application/json")
		return res, nil
	}
	for name, tt := range map[string]struct {
		up     upstream
		change func(*relay.Config)
		kind   error
		spent  bool
	}{
		"rejected": {reject, nil, relay.ErrRejected, false},
		"the run": {answers, func(c *relay.Config) {
			c.Total = allowance.New("harness.config.budget.total", allowance.Amount{Requests: 1})
		}, relay.ErrSpent, false},
		"budget": {answers, func(c *relay.Config) { c.Budget.Requests = 1 }, nil, true},
		"honest": {answers, nil, nil, false},
	} {
		b := newBench(t, tt.up, tt.change)
		v := b.desk.Admit("ticket", nil)
		g := b.start("ticket")
		for range 2 {
			_, _, _ = g.whole()
		}
		if tt.kind != nil && !errors.Is(g.Err(), tt.kind) || tt.kind == nil && g.Err() != nil || g.Spent() != tt.spent {
			t.Errorf("%s: %v, spent %v", name, g.Err(), g.Spent())
		}
		g.stop()
		if k := v.End(); g.Err() != nil && (k.Err() == nil || k.Err().Error() != g.Err().Error()) || k.Spent() != tt.spent {
			t.Errorf("%s: the run knows %v, spent %v", name, k.Err(), k.Spent())
		}
	}
}

// TestDeadTicket: a ticket that is not valid, or was used, opens nothing. When one dies,
// what is under way is broken off, and the provider is asked nothing more.
func TestDeadTicket(t *testing.T) {
	up, bodies, left := slow()
	b := newBench(t, up, nil)
	if err := b.start("unknown").failed(); !strings.Contains(err.Error(), "no such ticket") {
		t.Error(err)
	}
	v := b.desk.Admit("ticket", nil)
	g := b.start("ticket")
	res, err := g.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-bodies
	if err := b.start("ticket").failed(); !strings.Contains(err.Error(), "the ticket was used") {
		t.Error(err)
	}
	k := v.End()
	<-left
	if err := g.failed(); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the answer seems to be whole")
	}
	if _, _, err := g.whole(); err == nil || len(bodies) != 0 {
		t.Error("the ticket is used again")
	}
	if n := k.Usage()["requests"]; n != 1 || v.End().Usage()["requests"] != 1 {
		t.Errorf("%d requests are known", n)
	}
	if b.desk.Admit("silent", nil).End() != nil {
		t.Error("something is known of an agent that never came")
	}
}

// TestWorkerLost: when the machine of an agent goes away in the middle of an answer, the
// provider is asked nothing more, and what was used is known.
func TestWorkerLost(t *testing.T) {
	up, bodies, left := slow()
	b := newBench(t, up, nil)
	v := b.desk.Admit("ticket", func() (map[string]int64, func(map[string]int64) error) {
		return map[string]int64{"requests": 2}, func(map[string]int64) error { return nil }
	})
	g := b.start("ticket")
	res, err := g.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.WriteString(<-bodies, delta)
	b.server.CloseClientConnections()
	<-left
	if err := g.failed(); !strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
	k := v.End()
	trace, _ := k.Trace()
	if u := k.Usage(); u["requests"] != 3 || u["output_tokens"] == 0 || !strings.Contains(string(trace), "agent_left") {
		t.Errorf("%v", u)
	}
}

// TestUnreachable: without the run, an attempt fails at once, and not by the agent's doing.
func TestUnreachable(t *testing.T) {
	b := newBench(t, answers, nil)
	b.desk.Admit("ticket", nil)
	b.server.Close()
	if err := b.start("ticket").failed(); errors.Is(err, relay.ErrRefused) || !strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
}
