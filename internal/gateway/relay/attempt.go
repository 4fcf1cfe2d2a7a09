package relay

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"securebench/internal/gateway/ledger"
	"securebench/internal/gateway/relay/wire"
)

// MaxHeader bounds the headers of an agent's request.
const MaxHeader = 64 << 10

// Attempt serves the agent of one attempt.
type Attempt struct {
	relay   *Relay
	hold    func(ctx context.Context) (release func(), err error)
	token   string
	record  func(ledger.Entry) // nil if there is no ledger
	budget  budget
	turn    chan struct{} // has room for the request that asks for a part of the run's allowance
	answers answers
	room    room       // for the bodies of requests
	pool    *wire.Pool // for what is kept of responses
	ahead   *wire.Pool // for what the agent has not read yet
	holds   holds
	trace   trace
	life    context.Context // of the agent
	// limited is when the provider first said that it has too much to do, of late.
	// It belongs to the relay's pace.
	limited time.Time

	mu     sync.Mutex
	err    error
	failed chan struct{} // closed when err is set
}

// Serve answers on the listener until ctx ends, and returns when every request
// is done with.
func (a *Attempt) Serve(ctx context.Context, ln net.Listener) error {
	h := a.Handler(ctx)
	server := &http.Server{ //nolint:gosec // see below for its timeouts
		Handler: h,
		// There is no limit to how long a connection is idle or a request takes: the
		// agent may be frozen for long, and all of its connections end with it. The
		// timer of a limit would outlive its connection.
		MaxHeaderBytes:               MaxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0),
		BaseContext:                  func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(ln)
	_ = server.Close() // of connections, which were not closed if the listener failed
	h.End()
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Handler answers the requests of an attempt's agent.
type Handler struct {
	attempt *Attempt

	mu     sync.Mutex
	ended  bool
	active sync.WaitGroup
}

// Handler returns what answers the agent, whichever way its requests come. It is called
// once; ctx is the life of the agent.
func (a *Attempt) Handler(ctx context.Context) *Handler {
	a.life = ctx
	return &Handler{attempt: a}
}

// ServeHTTP answers a request, unless no more are answered.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	h.active.Add(1)
	h.mu.Unlock()
	defer h.active.Done()
	h.attempt.serve(w, r)
}

// End answers no more requests, and returns when every one is done with.
func (h *Handler) End() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.active.Wait()
}

// Usage counts what the attempt used, by the names of the record's usage:
// requests, input_tokens, cached_input_tokens, output_tokens, tool_calls,
// cache_write_input_tokens if there are any, and cost_microusd where prices are
// configured. The input includes what was read from a cache or written to one.
//
// It also counts what came of the requests: [Answers], [Refusals] and, where there
// are any, those answers that a score should be read with.
func (a *Attempt) Usage() map[string]int64 {
	counts := a.budget.usage()
	a.answers.add(counts)
	return counts
}

// Spent reports whether a request was refused because the budget is spent.
func (a *Attempt) Spent() bool { return a.budget.refused() }

// Held is how long the agent stood still.
func (a *Attempt) Held() time.Duration { return a.holds.time() }

// Trace returns the exchanges as lines of JSON, bounded, without credentials.
func (a *Attempt) Trace() []byte { return a.trace.lines() }

// Err returns why the provider failed this attempt, if it did: an
// infrastructure error, unless it is [ErrRejected] or [ErrRefused].
func (a *Attempt) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Failed is closed as soon as [Attempt.Err] returns an error. The agent is then
// refused everything, so there is no reason to wait for it.
func (a *Attempt) Failed() <-chan struct{} { return a.failed }

// fail ends the attempt; the first error stays. It returns the refusal for the
// request.
func (a *Attempt) fail(err error) *refusal {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
		close(a.failed)
	}
	return a.ended(a.err)
}

// ended returns the refusal of a request after the provider failed the attempt.
func (a *Attempt) ended(err error) *refusal {
	if errors.Is(err, ErrSpent) {
		return a.refuse(budgetSpent, "the budget of the run is spent")
	}
	why := providerFailed
	if errors.Is(err, ErrRejected) || errors.Is(err, ErrRefused) {
		why = providerReject
	}
	return a.refuse(why, "the provider failed: "+err.Error())
}
