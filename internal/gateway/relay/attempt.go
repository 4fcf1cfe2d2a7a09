package relay

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"securebench/internal/gateway/ledger"
	"securebench/internal/gateway/pace"
	"securebench/internal/gateway/relay/wire"
	"securebench/internal/trajectory"
)

// Attempt serves the agent of one attempt.
type Attempt struct {
	relay   *Relay
	place   *pace.Place
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
	telling *wire.Pool // for what answers say
	trace   trace
	steps   *trajectory.Recorder
	life    context.Context // of the agent

	mu     sync.Mutex
	err    error
	failed chan struct{} // closed when err is set
}

// Serve answers on the listener until ctx ends, and returns when every request
// is done with.
func (a *Attempt) Serve(ctx context.Context, ln net.Listener) error {
	return a.Handler(ctx).Serve(ctx, ln)
}

// Handler returns what answers the agent, whichever way its requests come. It is called
// once; ctx is the life of the agent.
func (a *Attempt) Handler(ctx context.Context) *Handler {
	a.life = ctx
	context.AfterFunc(ctx, a.place.Open())
	return NewHandler(a.serve)
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

// Trace returns the exchanges, and the agent's steps as [trajectory] has them, as lines
// of JSON, bounded, without credentials.
func (a *Attempt) Trace() (exchanges, steps []byte) { return a.trace.lines(), a.steps.Lines() }

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
		return refuse(budgetSpent, "the budget of the run is spent")
	}
	why := providerFailed
	if errors.Is(err, ErrRejected) || errors.Is(err, ErrRefused) {
		why = providerReject
	}
	return refuse(why, "the provider failed: "+err.Error())
}
