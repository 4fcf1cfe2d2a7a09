package relay

import (
	"context"
	"sync"

	"securebench/internal/gateway/relay/reply"
)

// reserveOutput is how many tokens of output are set aside for a request while
// its own are not known.
const reserveOutput = 4096

// budget counts what an attempt used and refuses requests beyond its limit.
type budget struct {
	limit  Budget
	prices map[string]Price

	mu       sync.Mutex
	requests int64
	used     reply.Usage
	cost     float64
	tokens   int64 // set aside for requests under way
	money    float64
	open     int  // requests under way
	spent    bool // a request was refused
	changed  chan struct{}
}

// ticket is a request's part of the budget.
type ticket struct {
	model  string
	tokens int64
	money  float64
}

// admit lets a request through, or reports that the budget is spent. Near the
// limit, requests go one after another: no number of them at a time uses much
// more than the budget.
func (b *budget) admit(ctx context.Context, model string, bytes int64) (t ticket, ok bool, err error) {
	input := reply.Guess(bytes)
	t = ticket{model, input + reserveOutput, b.price(model, reply.Usage{Input: input, Output: reserveOutput})}
	for {
		b.mu.Lock()
		switch {
		case b.exhausted():
			b.spent = true
			b.mu.Unlock()
			return t, false, nil
		case b.open == 0 || b.fits(t):
			b.open++
			b.requests++
			b.tokens += t.tokens
			b.money += t.money
			b.mu.Unlock()
			return t, true, nil
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return t, false, ctx.Err()
		}
	}
}

func (b *budget) exhausted() bool {
	l := b.limit
	return l.Requests > 0 && b.requests >= l.Requests ||
		l.Tokens > 0 && b.used.Input+b.used.Output >= l.Tokens ||
		l.Cost > 0 && b.cost >= l.Cost
}

func (b *budget) fits(t ticket) bool {
	return (b.limit.Tokens == 0 || b.used.Input+b.used.Output+b.tokens+t.tokens <= b.limit.Tokens) &&
		(b.limit.Cost == 0 || b.cost+b.money+t.money <= b.limit.Cost)
}

// settle replaces what was set aside by what the request used.
func (b *budget) settle(t ticket, u reply.Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	b.tokens -= t.tokens
	b.money -= t.money
	b.used.Input += u.Input
	b.used.Cached += u.Cached
	b.used.Written += u.Written
	b.used.Output += u.Output
	b.used.ToolCalls += u.ToolCalls
	b.cost += b.price(t.model, u)
	close(b.changed)
	b.changed = make(chan struct{})
}

// price returns what a usage costs, in USD.
func (b *budget) price(model string, u reply.Usage) float64 {
	p := b.prices[model]
	return (float64(u.Input-u.Cached-u.Written)*p.Input + float64(u.Cached)*p.CachedInput +
		float64(u.Written)*p.CacheWrite + float64(u.Output)*p.Output) / 1e6
}

// counts returns the usage by the names of the record.
func (b *budget) counts() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]int64{
		"requests":            b.requests,
		"input_tokens":        b.used.Input,
		"cached_input_tokens": b.used.Cached,
		"output_tokens":       b.used.Output,
		"tool_calls":          b.used.ToolCalls,
	}
	if b.used.Written > 0 {
		out["cache_write_input_tokens"] = b.used.Written
	}
	if len(b.prices) > 0 {
		out["cost_microusd"] = int64(b.cost*1e6 + 0.5)
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
