package hub

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/awaittest"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/relay/distant"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

type upstream func(*http.Request) (*http.Response, error)

func (u upstream) RoundTrip(r *http.Request) (*http.Response, error) { return u(r) }

// asking is a site whose agents ask their provider once.
type asking struct {
	site
	relay func(record.AttemptKey) (distant.Way, bool)
}

func (s *asking) Produce(ctx context.Context, req agent.Request) (attempt.Produced, error) {
	way, ok := s.relay(record.AttemptKey{Task: req.View.ID(), Attempt: req.Attempt})
	if !ok {
		return attempt.Produced{}, errors.New("there is no way to the provider")
	}
	p := way.Open(relay.Options{Token: "token"})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return attempt.Produced{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	asked := make(chan error, 1)
	go func() { asked <- ask(ctx, ln.Addr().String()) }()
	select {
	case err = <-asked:
	case <-p.Failed():
		err = p.Err()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	stop()
	if err := errors.Join(err, <-done, p.Err()); err != nil {
		return attempt.Produced{}, attempt.Failed(err, verdict.PhaseProduce)
	}
	out, err := s.answer(req)
	out.Usage, out.End = map[string]int64{"steps": 1}, sandbox.Exited
	return out, err
}

// ask makes a request as an agent does.
func ask(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/responses", strings.NewReader(`{"model":"m","stream":true,"input":"hi"}`))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer token")
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// provider is a fleet's, whose first answer does not end.
func (f *fleet) provider() (begun, left chan struct{}) {
	f.Helper()
	begun, left = make(chan struct{}, 8), make(chan struct{}, 8)
	first := true
	r, err := relay.New(relay.Config{API: relay.Responses, BaseURL: "https://provider.example", Keys: access.Keys{Key: "sk-canary-0123456789abcdef"}, Model: "m", Prices: map[string]relay.Price{"m": {Input: 2, Output: 10}},
		Transport: upstream(func(r *http.Request) (*http.Response, error) {
			body := io.NopCloser(strings.NewReader("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}}\n\n"))
			if first {
				first = false
				from, to := io.Pipe()
				context.AfterFunc(r.Context(), func() { _ = to.CloseWithError(context.Canceled); left <- struct{}{} })
				body = from
				begun <- struct{}{}
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
		})})
	if err != nil {
		f.Fatal(err)
	}
	f.o.Desk = distant.NewDesk(r)
	return begun, left
}

// asks lets a worker's agents ask their provider.
func asks(o *worker.Options) {
	o.Open = func(_ context.Context, set worker.Setting) (worker.Site, error) {
		return &asking{site: site{store: set.Store}, relay: set.Relay}, nil
	}
}

// TestFencedRelay: when a worker loses its job, the agent's way to the provider ends with
// it, in the middle of an answer. What was used counts as that of a try, and another
// worker's agent has a way of its own.
func TestFencedRelay(t *testing.T) {
	f := newFleet(t)
	begun, left := f.provider()
	h := f.open()
	f.start(f.invite("first", remote.Produce), site{}, asks, func(o *worker.Options) { o.Grace = 0 })
	req := agent.Request{View: newTask(t, "task").Agent(), Attempt: 1, Dir: "task", Image: sandbox.Image{Ref: "img", ID: "sha256:1"}}
	failed := make(chan error, 1)
	go func() { _, err := h.Produce(t.Context(), req); failed <- err }()
	<-begun
	if err := f.keys.Revoke("first"); err != nil {
		t.Fatal(err)
	}
	<-left
	e, ok := errors.AsType[*attempt.Error](<-failed)
	if !ok || !strings.Contains(e.Message, "was revoked") || e.Usage["requests"] != 1 || !strings.Contains(string(e.Raw[produce.NetworkFile]), "agent_left") {
		t.Errorf("%+v", e)
	}
	second := f.start(f.invite("second", remote.Produce), site{}, asks)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		select {
		case err := <-second.done:
			second.done <- err
			t.Errorf("the second worker ended with %v", err)
			stop()
		case <-ctx.Done():
		}
	}()
	p, err := h.Produce(ctx, req)
	if err != nil || p.Usage["requests"] != 1 || p.Usage["output_tokens"] != 7 || p.Usage["steps"] != 1 || len(p.Raw["exchanges.jsonl"]) == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	want := e.Usage["cost_microusd"] + p.Usage["cost_microusd"]
	if is := h.Desk.MicroUSD(); is != want || p.Usage["cost_microusd"] != 5*2+7*10 {
		t.Errorf("the relay's requests cost %d and %d, and it says %d", e.Usage["cost_microusd"], p.Usage["cost_microusd"], is)
	}
	if text := "securebench_relay_microusd_total " + strconv.FormatInt(want, 10) + "\n"; !strings.Contains(string(h.metrics()), text) {
		t.Errorf("the metrics lack %q", text)
	}
	for _, text := range []string{`relay_requests{state="running"} 0`, `relay_requests{state="waiting"} 0`, "relay_requests_limit 0"} {
		if !strings.Contains(string(h.metrics()), "\nsecurebench_"+text+"\n") {
			t.Errorf("the metrics lack %q", text)
		}
	}
}

// TestReturnedRelay: a worker that leaves returns its job, whose agent had used something.
// That counts with what the next worker's uses.
func TestReturnedRelay(t *testing.T) {
	f := newFleet(t)
	begun, left := f.provider()
	h := f.open()
	first := f.start(f.invite("first", remote.Produce), site{}, asks, func(o *worker.Options) { o.Grace = 0 })
	type result struct {
		p   attempt.Produced
		err error
	}
	done := make(chan result, 1)
	req := agent.Request{View: newTask(t, "task").Agent(), Attempt: 1, Dir: "task", Image: sandbox.Image{Ref: "img", ID: "sha256:1"}}
	go func() { p, err := h.Produce(t.Context(), req); done <- result{p, err} }()
	<-begun
	first.stop()
	<-left
	if err := first.ended(t); !errors.Is(err, worker.ErrDrained) {
		t.Errorf("the worker ended with %v", err)
	}
	f.start(f.invite("second", remote.Produce), site{}, asks)
	var got result
	awaittest.Until(t, "the second agent", func() bool {
		select {
		case got = <-done:
			return true
		default:
			return false
		}
	})
	if got.err != nil || got.p.Usage["requests"] != 2 || strings.Count(string(got.p.Raw["exchanges.jsonl"]), "\n") != 2 {
		t.Errorf("%+v, %v", got.p.Usage, got.err)
	}
}

// TestQuickAgent: what is counted of an agent that has ended before its worker could ask
// for its way to the provider is what one machine counts, and how it ended is its own.
func TestQuickAgent(t *testing.T) {
	f := newFleet(t)
	f.provider()
	h := f.open()
	f.start(f.invite("quick", remote.Produce), site{}, func(o *worker.Options) {
		o.Open = func(_ context.Context, set worker.Setting) (worker.Site, error) {
			return &site{store: set.Store, produce: func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error) {
				way, _ := set.Relay(record.AttemptKey{Task: req.View.ID(), Attempt: req.Attempt})
				p := way.Open(relay.Options{Token: "token"})
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return attempt.Produced{}, err
				}
				defer ln.Close()
				over, stop := context.WithCancel(ctx)
				stop()
				if err := errors.Join(p.Serve(over, ln), p.Err()); err != nil {
					return attempt.Produced{}, err
				}
				return s.answer(req)
			}}, nil
		}
	})
	p, err := h.Produce(t.Context(), agent.Request{View: newTask(t, "task").Agent(), Attempt: 1})
	if n, counted := p.Usage["requests"]; err != nil || !counted || n != 0 {
		t.Errorf("%v, %v", p.Usage, err)
	}
}

// twice is a site whose agent asks once for each presentation of its task.
type twice struct{ *asking }

func (s twice) Produce(ctx context.Context, req agent.Request) (p attempt.Produced, err error) {
	usage := map[string]int64{}
	for range req.Shown {
		if p, err = s.asking.Produce(ctx, req); err != nil {
			return p, err
		}
		usage = record.SumUsage(usage, p.Usage)
	}
	p.Usage = usage
	return p, nil
}

// TestPresentedRelay: the agents of a task's presentations, one after the other, have the
// ticket of their job, and share its budget. What a job of one presentation has is used up
// with its agent.
func TestPresentedRelay(t *testing.T) {
	for requests, budget := range map[int64]int64{2: 0, 1: 1} {
		f := newFleet(t)
		r, err := relay.New(relay.Config{API: relay.Responses, BaseURL: "https://provider.example", Keys: access.Keys{Key: "sk-canary-0123456789abcdef"}, Model: "m",
			Prices: map[string]relay.Price{"m": {Input: 2, Output: 10}}, Budget: relay.Budget{Requests: budget},
			Transport: upstream(func(*http.Request) (*http.Response, error) {
				body := "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}}\n\n"
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		f.o.Desk = distant.NewDesk(r)
		h := f.open()
		f.start(f.invite("first", remote.Produce), site{}, func(o *worker.Options) {
			o.Open = func(_ context.Context, set worker.Setting) (worker.Site, error) {
				return twice{&asking{site: site{store: set.Store}, relay: set.Relay}}, nil
			}
		})
		view := newTask(t, "task").Agent()
		p, err := h.Produce(t.Context(), agent.Request{View: view, Shown: []*task.AgentView{&view, &view}, Attempt: 1, Dir: "task", Image: sandbox.Image{Ref: "img", ID: "sha256:1"}})
		if err != nil || p.Usage["requests"] != requests || p.Usage["steps"] != 2 || (p.Limit == produce.OverBudget) != (budget > 0) {
			t.Errorf("with a budget of %d: %+v, %v", budget, p, err)
		}
		if is := h.Desk.MicroUSD(); is != requests*(5*2+7*10) {
			t.Errorf("with a budget of %d requests they cost %d", budget, is)
		}
	}
}
