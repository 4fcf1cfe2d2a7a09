package produce_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/gateway/allowance"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/relay/distant"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox/sandboxtest"
)

// pipes is a network of one listener.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// heard is a transport that notes all that it receives, and lets a test break it.
type heard struct {
	*http.Transport
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := h.Transport.RoundTrip(r)
	if err != nil {
		return res, err
	}
	head, err := httputil.DumpResponse(res, false)
	h.note(head)
	res.Body = &noted{res.Body, h}
	return res, err
}

func (h *heard) note(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(p)
}

type noted struct {
	io.ReadCloser
	h *heard
}

func (n *noted) Read(p []byte) (int, error) {
	k, err := n.ReadCloser.Read(p)
	n.h.note(p[:k])
	return k, err
}

// away is a fleet whose relay is elsewhere, over TLS.
type away struct {
	*fleet
	desk   *distant.Desk
	net    *pipes
	heard  *heard
	server *httptest.Server
	visits map[string]*distant.Visit // by task
	mu     sync.Mutex
}

// elsewhere moves the relay of a fleet away.
func elsewhere(f *fleet) *away {
	a := &away{fleet: f, desk: distant.NewDesk(f.gateway.Relay), net: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, visits: map[string]*distant.Visit{}}
	a.server = httptest.NewUnstartedServer(a.desk)
	a.server.Listener.Close()
	a.server.Listener = a.net
	a.server.Config.MaxHeaderBytes = relay.MaxHeader + distant.HeaderRoom
	a.server.StartTLS()
	t, _ := a.server.Client().Transport.(*http.Transport)
	a.heard = &heard{Transport: &http.Transport{TLSClientConfig: t.TLSClientConfig, DialContext: a.net.dial, DisableCompression: true}}
	f.gateway.Relay = nil
	f.gateway.Provider = func(task string, _ int, o relay.Options) (produce.Provider, error) {
		ticket := rand.Text()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.visits[task] = a.desk.Admit(ticket, nil)
		return distant.Way{Transport: a.heard, Base: "https://example.com", Ticket: ticket}.Open(o), nil
	}
	return a
}

// close ends the network.
func (a *away) close() {
	a.heard.CloseIdleConnections()
	a.server.CloseClientConnections()
	a.net.Close()
	_ = a.server.Config.Close()
}

// run runs an agent, and adds what the run knows to its result.
func (a *away) run(ctx context.Context, name string) (produce.Result, error) {
	res, err := a.fleet.run(ctx, name)
	a.mu.Lock()
	v := a.visits["t/"+name]
	a.mu.Unlock()
	known := v.End()
	if known == nil {
		return res, errors.Join(err, errors.New("the agent has not begun"))
	}
	res.Usage = produce.Reached{Lines: known.Network, Counts: known.Counts, Provider: known}.Add(res.Metadata, res.Raw, res.Usage)
	return res, err
}

// told writes an answer as an agent sees it.
func told(p *sandboxtest.Process, res *http.Response, err error) {
	if err != nil {
		fmt.Fprintln(p.Stdout, "no answer")
		return
	}
	defer res.Body.Close()
	res.Header.Del("Date")
	res.Close = false // which is about the connection alone
	head, _ := httputil.DumpResponse(res, false)
	body, err := io.ReadAll(res.Body)
	fmt.Fprintf(p.Stdout, "%s%s\ncut: %v\n", head, said(string(body))+body0(body), err != nil)
}

// body0 is an answer that is no stream.
func body0(body []byte) string {
	if strings.HasPrefix(string(body), "event:") {
		return ""
	}
	return string(body)
}

// scenario is what an agent and its provider do.
type scenario struct {
	agent  sandboxtest.Program
	answer provide
	change func(*relay.Config)
	want   string // part of what is known in the end
}

func scenarios() map[string]scenario {
	failing := func(status int, only string) provide {
		return func(r *http.Request) (*http.Response, error) {
			if p := prompt(r); only == "" || strings.Contains(p, only) {
				return respond(status, strings.NewReader(`{"error":{"message":"no","code":"invalid_api_key"}}`), "Content-Type: application/json"), nil
			}
			return respond(200, strings.NewReader(stream("it"))), nil
		}
	}
	asking := func(n int) sandboxtest.Program {
		return agent(func(ctx context.Context, c *caller, p *sandboxtest.Process) error {
			for i := range n {
				res, err := c.begin(ctx, fmt.Sprint("question ", i))
				told(p, res, err)
			}
			return nil
		})
	}
	return map[string]scenario{
		"honest": {asks(3, time.Second), answers, nil, `"requests":3`},
		"budget": {asking(3), answers, func(c *relay.Config) { c.Budget.Requests = 2 }, "End:budget"},
		"total": {asking(3), answers, func(c *relay.Config) {
			c.Total = allowance.New("harness.config.budget.total", allowance.Amount{Requests: 2})
		}, "harness.config.budget.total is spent: 2 of 2 requests"},
		"rejects": {asking(1), failing(401, ""), nil, "the provider rejects the configuration"},
		"refuses": {asking(1), failing(401, "question"), nil, "End:provider_refused"},
		"busy": {asks(2, time.Second), func() provide {
			n := 0
			return func(r *http.Request) (*http.Response, error) {
				if n++; n < 4 {
					return respond(429, strings.NewReader(""), "Retry-After: 20"), nil
				}
				return answers(r)
			}
		}(), nil, "held_seconds: true"},
		"never": {asks(1, 0), func(*http.Request) (*http.Response, error) { return respond(503, strings.NewReader("")), nil }, nil, "within the time that an attempt may wait"},
		"breaks off": {asking(2), func(r *http.Request) (*http.Response, error) {
			from, to := pipeOf(r)
			go func() {
				_, _ = io.WriteString(to, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n")
				to.CloseWithError(errors.New("reset"))
			}()
			return respond(200, from), nil
		}, nil, "cut: true"},
		"whole breaks off": {asking(2), func(r *http.Request) (*http.Response, error) {
			from, to := pipeOf(r)
			go func() { _, _ = io.WriteString(to, `{"id":`); to.CloseWithError(errors.New("reset")) }()
			return respond(200, from, "Content-Type: application/json"), nil
		}, nil, "no answer"},
		"leaves": {agent(func(ctx context.Context, c *caller, p *sandboxtest.Process) error {
			ctx, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			res, err := c.begin(ctx, "slow")
			told(p, res, err)
			return nil
		}), func(r *http.Request) (*http.Response, error) {
			from, to := pipeOf(r)
			go func() { _, _ = io.WriteString(to, stream("slow")[:60]) }()
			return respond(200, from), nil
		}, nil, "agent_left"},
		"exits early": {agent(func(ctx context.Context, c *caller, _ *sandboxtest.Process) error {
			res, err := c.begin(ctx, "slow") //nolint:bodyclose // the program ends in the middle of it
			if err == nil {
				_, err = res.Body.Read(make([]byte, 10))
			}
			return err
		}), func(r *http.Request) (*http.Response, error) {
			from, to := pipeOf(r)
			go func() { _, _ = io.WriteString(to, stream("slow")[:60]) }()
			return respond(200, from), nil
		}, nil, "agent_left"},
		"hostile": {agent(probing), answers, nil, "wrong_token"},
	}
}

// probing makes requests that are refused, and looks for what is not an agent's.
func probing(ctx context.Context, c *caller, p *sandboxtest.Process) error {
	for _, try := range []struct {
		method, target string
		body           io.Reader
		fields         string
	}{
		{"POST", "/v1/chat/completions", strings.NewReader("{}"), ""},
		{"GET", "/events", nil, ""}, {"POST", "/end", nil, ""}, {"POST", "/held", strings.NewReader(`{"hold":1}`), ""}, {"GET", "/agent/../events", nil, ""},
		{"GET", "/v1/models", nil, ""}, {"HEAD", "/v1/models", nil, ""}, {"HEAD", "/v1/responses", nil, ""},
		{"POST", "/v1/responses", strings.NewReader("{}"), "Authorization: Bearer other"},
		{"POST", "/v1/responses?x=1", strings.NewReader("{}"), ""},
		{"POST", "/v1/responses", strings.NewReader(strings.Repeat("x", 1<<20)), "Authorization: Bearer other"},
		{"POST", "/v1/responses", strings.NewReader("{}"), "Securebench-Method: GET\nSecurebench-Target: /v1/models\nSecurebench-Length: 7\nSecurebench-Token: x"},
		{"POST", "/v1/responses", strings.NewReader("not zipped"), "Content-Encoding: gzip"},
		{"POST", "/v1/responses", strings.NewReader("{}"), "Content-Encoding: br"},
		{"POST", "/v1/responses", io.MultiReader(strings.NewReader(`{"model":"model-1","input":"`), io.LimitReader(&forever{text: "x"}, 33<<20)), ""},
		{"DELETE", "/v1/responses", nil, "X-Long: " + strings.Repeat("x", 40<<10)},
		{"POST", "/v1/responses", strings.NewReader(`{"model":"other","input":"x"}`), ""},
	} {
		r, err := http.NewRequestWithContext(ctx, try.method, "http://127.0.0.1:61081"+try.target, try.body)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+c.token)
		for field := range strings.Lines(try.fields) {
			name, value, _ := strings.Cut(strings.TrimSpace(field), ": ")
			r.Header.Set(name, value)
		}
		res, err := c.transport.RoundTrip(r)
		fmt.Fprintf(p.Stdout, "%s %s: ", try.method, try.target)
		told(p, res, err)
	}
	return nil
}

// times are what depends on time, also how often a provider was asked that never answered:
// pauses in between are of random length.
var times = regexp.MustCompile(`"(began|took_ns|waited_ns)":("[^"]*"|[0-9]+),?|"tries":[0-9]{2,},`)

// known writes a result without what depends on time.
func known(res produce.Result, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "End:%s %d\nerror: %v\n", res.Outcome.End, res.Outcome.ExitCode, err)
	for _, kind := range []error{produce.ErrRejected, produce.ErrWaited, produce.ErrSpent, relay.ErrRefused} {
		fmt.Fprint(&b, errors.Is(err, kind), " ")
	}
	fmt.Fprintf(&b, "\nusage: %q\n", fmt.Sprint(res.Usage))
	for _, name := range []string{"network.jsonl", "exchanges.jsonl"} {
		lines := strings.Split(times.ReplaceAllString(string(res.Raw[name]), ""), "\n")
		slices.Sort(lines)
		fmt.Fprintf(&b, "%s:%s\n", name, strings.Join(lines, "\n"))
	}
	fmt.Fprintf(&b, "network: %s\nrefusal: %s\nheld_seconds: %v\nlabels: %v\n", res.Metadata["network"], res.Metadata["relay_refusal"], res.Metadata["held_seconds"] != nil, res.Labels)
	if err == nil && res.Outcome.End == "exit" { // one that is ended may have seen why or not
		fmt.Fprintf(&b, "stdout: %s\nstderr: %s\n", res.Stdout, res.Stderr)
	}
	return b.String()
}

// TestDistantRelay: an agent whose relay is elsewhere sees the same answers as one beside
// it, ends in the same way, and leaves the same behind. What its machine receives has no
// key.
func TestDistantRelay(t *testing.T) {
	for name := range scenarios() {
		t.Run(name, func(t *testing.T) {
			var got [2]string
			for i, far := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					defer time.Sleep(time.Second) // as a server waits before it closes a connection that is still written to
					s := scenarios()[name]
					f := newFleet(t, s.answer, s.change)
					f.agents["a"], f.output = s.agent, 64<<20
					if !far {
						got[i] = known(f.run(t.Context(), "a"))
						return
					}
					a := elsewhere(f)
					got[i] = known(a.run(t.Context(), "a"))
					a.close()
					if text := a.heard.text.String(); strings.Contains(text, fleetKey) || !strings.Contains(text, "opened") {
						t.Errorf("the agent's machine received %.3000s", text)
					}
				})
			}
			if d := cmp.Diff(got[0], got[1]); d != "" {
				t.Errorf("-beside +elsewhere:\n%s", d)
			}
			if want := strings.ReplaceAll(scenarios()[name].want, `"requests":3`, "requests:3"); !strings.Contains(got[0], want) {
				t.Errorf("want %s in %s", want, got[0])
			}
		})
	}
}
