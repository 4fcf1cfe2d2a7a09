package relay

import (
	"cmp"
	"context"
	"net/http"
	"sync"

	"securebench/internal/gateway/allowance"
	"securebench/internal/gateway/relay/wire"
)

// reserveOutput is how many tokens of output are set aside for a request while
// its own are not known.
const reserveOutput = 4096

// maxOutput is how many tokens of output a request can have, whatever it asks for.
const maxOutput = 1_000_000

// budget counts what an attempt used and refuses requests beyond its limit.
type budget struct {
	limit  Budget
	prices map[string]Price
	before used                         // of the limit, by another way
	note   func(map[string]int64) error // nil is told nothing
	warn   func(string)

	mu       sync.Mutex
	former   int64 // requests of before the run was killed
	requests int64
	used     wire.Usage
	cost     float64
	tokens   int64 // set aside for requests under way
	money    float64
	most     wire.Usage // what those use at most
	dearest  float64    // and what that costs
	open     int        // requests under way
	spent    bool       // a request was refused
	changed  chan struct{}
}

// used is a part of a limit.
type used struct {
	requests, tokens int64
	cost             float64
}

// newBudget returns the budget of an attempt.
func newBudget(cfg Config, o Options) budget {
	f, u := o.Former, o.Used
	return budget{limit: cfg.Budget, prices: cfg.Prices, note: o.Note, warn: cfg.Notice, changed: make(chan struct{}),
		before: used{u["requests"], u["input_tokens"] + u["output_tokens"], float64(u["cost_microusd"]) / 1e6},
		former: f["requests"], requests: f["requests"], cost: float64(f["cost_microusd"]) / 1e6,
		used: wire.Usage{Input: f["input_tokens"], Cached: f["cached_input_tokens"], Written: f["cache_write_input_tokens"],
			Output: f["output_tokens"], ToolCalls: f["tool_calls"]}}
}

// ticket is a request's part of the budget.
type ticket struct {
	model   string
	tokens  int64
	money   float64
	most    wire.Usage // what it uses at most
	dearest float64
}

// ticket returns the part of a request.
func (b *budget) ticket(req wire.Request) ticket {
	input := wire.Guess(int64(len(req.Body)))
	usual := wire.Usage{Input: input, Output: max(req.Answers, 1) * reserveOutput}
	most := wire.Usage{Input: input, Output: outputOf(req, maxOutput)}
	return ticket{req.Model, input + usual.Output, b.price(req.Model, usual), most, b.price(req.Model, most)}
}

// outputOf returns how much output a request has if each of its answers has at most so much.
func outputOf(req wire.Request, most int64) int64 {
	return max(req.Answers, 1) * min(cmp.Or(max(req.Output, 0), reserveOutput), most)
}

// abandoned counts an answer for which the agent did not wait: nobody says what it cost,
// and its length says nothing before it has begun, or if it does not come in pieces.
func (x *exchange) abandoned(req wire.Request) {
	begun := x.Status == http.StatusOK && (!x.Stream || x.usage.Output > 0)
	if x.kind == asks && !x.exact && x.usage.Input > 0 && !begun {
		x.usage.Output = max(x.usage.Output, outputOf(req, reserveOutput))
	}
}

// admit lets a request through if the attempt and the run can pay for it. settle
// replaces what was set aside by what the request used. If the run cannot pay, the
// attempt has failed. Where the run's allowance has a bound, the requests of an attempt
// come here one at a time.
func (a *Attempt) admit(ctx context.Context, req wire.Request) (settle func(wire.Usage), refused *refusal) {
	if a.relay.cfg.Total != nil {
		select {
		case a.turn <- struct{}{}:
			defer func() { <-a.turn }()
		case <-ctx.Done():
			return nil, refuse(agentLeft, "the agent has left")
		}
	}
	t := a.budget.ticket(req)
	share, refused := a.share(ctx, t)
	if refused != nil {
		return nil, refused
	}
	switch ok, err := a.budget.admit(ctx, t); {
	case err != nil:
		refused = refuse(agentLeft, "the agent has left")
	case !ok:
		refused = a.spent()
	}
	if refused != nil {
		share.Return()
		return nil, refused
	}
	return func(u wire.Usage) {
		a.budget.settle(t, u)
		share.Settle(allowance.Amount{Tokens: u.Input + u.Output, Cost: a.budget.price(t.model, u)})
	}, nil
}

// spent refuses a request because the attempt's own budget is spent.
func (a *Attempt) spent() *refusal {
	return refuse(budgetSpent, "the budget of this attempt is spent")
}

// share sets a request's part of the run's allowance aside. The agent is held while
// that waits, unless it has another request under way, which it has to read: the wait may
// be for that one.
func (a *Attempt) share(ctx context.Context, t ticket) (*allowance.Share, *refusal) {
	if !a.budget.left() {
		return nil, a.spent()
	}
	share, err := a.relay.cfg.Total.Take(ctx, allowance.Amount{Tokens: t.tokens, Cost: t.money}, func(ctx context.Context) (func(), error) {
		if a.budget.busy() {
			return nil, nil
		}
		h, err := a.holdAgent(ctx)
		return h.end, err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, refuse(agentLeft, "the agent has left")
	case err != nil:
		return nil, a.fail(err)
	}
	return share, nil
}

// left reports whether the attempt has a request left.
func (b *budget) left() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent = b.spent || b.exhausted()
	return !b.spent
}

// busy reports whether a request is under way.
func (b *budget) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open > 0
}

// admit lets a request through, or reports that the budget is spent. Near the
// limit, requests go one after another: no number of them at a time uses much
// more than the budget.
func (b *budget) admit(ctx context.Context, t ticket) (ok bool, err error) {
	for {
		b.mu.Lock()
		switch {
		case b.exhausted():
			b.spent = true
			b.mu.Unlock()
			return false, nil
		case b.open == 0 || b.fits(t):
			b.requests++
			b.reserve(t, 1)
			b.mu.Unlock()
			return true, nil
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// reserve sets a request's part aside, or gives it back if sign is -1, and notes what
// the attempt has used at most.
func (b *budget) reserve(t ticket, sign int64) {
	b.open += int(sign)
	b.tokens += sign * t.tokens
	b.money += float64(sign) * t.money
	b.most.Input += sign * t.most.Input
	b.most.Output += sign * t.most.Output
	b.dearest += float64(sign) * t.dearest
	if b.note == nil {
		return
	}
	most := b.used
	most.Input += b.most.Input
	most.Output += b.most.Output
	if err := b.note(b.counts(most, b.cost+b.dearest)); err != nil && b.warn != nil {
		b.warn("what an agent asks of its provider cannot be noted for a resume: " + err.Error())
	}
}

// exhausted reports whether no request is left. An attempt whose run was killed may
// make one, whatever it had used then.
func (b *budget) exhausted() bool {
	l, f := b.limit, b.before
	if b.requests <= b.former && f.requests == 0 {
		return false
	}
	return l.Requests > 0 && b.requests+f.requests >= l.Requests ||
		l.Tokens > 0 && b.used.Input+b.used.Output+f.tokens >= l.Tokens ||
		l.Cost > 0 && b.cost+f.cost >= l.Cost
}

func (b *budget) fits(t ticket) bool {
	return (b.limit.Tokens == 0 || b.used.Input+b.used.Output+b.before.tokens+b.tokens+t.tokens <= b.limit.Tokens) &&
		(b.limit.Cost == 0 || b.cost+b.before.cost+b.money+t.money <= b.limit.Cost)
}

// settle replaces what was set aside by what the request used.
func (b *budget) settle(t ticket, u wire.Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Input += u.Input
	b.used.Cached += u.Cached
	b.used.Written += u.Written
	b.used.Output += u.Output
	b.used.ToolCalls += u.ToolCalls
	b.cost += b.price(t.model, u)
	b.reserve(t, -1)
	close(b.changed)
	b.changed = make(chan struct{})
}

// price returns what a usage costs, in USD.
func (b *budget) price(model string, u wire.Usage) float64 {
	p := b.prices[model]
	return (float64(u.Input-u.Cached-u.Written)*p.Input + float64(u.Cached)*p.CachedInput +
		float64(u.Written)*p.CacheWrite + float64(u.Output)*p.Output) / 1e6
}

// usage returns what the attempt used by the names of the record.
func (b *budget) usage() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts(b.used, b.cost)
}

// counts returns a usage by the names of the record.
func (b *budget) counts(used wire.Usage, cost float64) map[string]int64 {
	out := map[string]int64{
		"requests":            b.requests,
		"input_tokens":        used.Input,
		"cached_input_tokens": used.Cached,
		"output_tokens":       used.Output,
		"tool_calls":          used.ToolCalls,
	}
	if used.Written > 0 {
		out["cache_write_input_tokens"] = used.Written
	}
	if len(b.prices) > 0 {
		out["cost_microusd"] = int64(cost*1e6 + 0.5)
	}
	return out
}

func (b *budget) refused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// room is memory that requests share. A request that finds too little waits.
type room struct {
	mu      sync.Mutex
	free    int64
	changed chan struct{}
}

func (r *room) take(ctx context.Context, n int64) error {
	for {
		r.mu.Lock()
		if r.free >= n {
			r.free -= n
			r.mu.Unlock()
			return nil
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *room) give(n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	close(r.changed)
	r.changed = make(chan struct{})
}
