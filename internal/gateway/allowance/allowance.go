// Package allowance bounds what all attempts of a run together use of their
// provider. A request is paid for before it is made: a part of the allowance is set
// aside, and replaced by what the request has used when that is known.
package allowance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Amount is what requests use, or a bound on it.
type Amount struct {
	Requests int64
	Tokens   int64   // input and output together
	Cost     float64 // USD
}

// Counted returns what a usage says, by the names of a record's usage.
func Counted(usage map[string]int64) Amount {
	return Amount{Requests: usage["requests"], Tokens: usage["input_tokens"] + usage["output_tokens"], Cost: float64(usage["cost_microusd"]) / 1e6}
}

// Share returns the part of a bound that one of n has; 0 are no parts. No part is less
// than a request or a token.
func (a Amount) Share(n int) Amount {
	if n == 0 {
		return a
	}
	part := func(all int64) int64 { return min(all, max(1, all/int64(n))) }
	return Amount{part(a.Requests), part(a.Tokens), a.Cost / float64(n)}
}

func (a Amount) plus(b Amount) Amount {
	return Amount{a.Requests + b.Requests, a.Tokens + b.Tokens, a.Cost + b.Cost}
}

func (a Amount) minus(b Amount) Amount {
	return Amount{a.Requests - b.Requests, a.Tokens - b.Tokens, a.Cost - b.Cost}
}

// reaches reports whether an amount is at least a bound; a zero field is no bound.
func (a Amount) reaches(limit Amount) bool {
	return limit.Requests > 0 && a.Requests >= limit.Requests ||
		limit.Tokens > 0 && a.Tokens >= limit.Tokens ||
		limit.Cost > 0 && a.Cost >= limit.Cost
}

// exceeds reports whether an amount is above a bound.
func (a Amount) exceeds(limit Amount) bool {
	return limit.Requests > 0 && a.Requests > limit.Requests ||
		limit.Tokens > 0 && a.Tokens > limit.Tokens ||
		limit.Cost > 0 && a.Cost > limit.Cost
}

// Allowance is that of one run. It is safe for concurrent use; a nil allowance has no
// bound.
type Allowance struct {
	key   string
	limit Amount

	mu      sync.Mutex
	used    Amount // with every request under way, but not its tokens
	aside   Amount // tokens and cost set aside for requests under way
	open    int    // requests under way
	changed chan struct{}
}

// New returns an unused allowance with a bound of the configuration's, which is named by
// its key; nil if there is no bound.
func New(key string, limit Amount) *Allowance {
	if limit == (Amount{}) {
		return nil
	}
	return &Allowance{key: key, limit: limit, changed: make(chan struct{})}
}

// Add counts what is used without being asked for, such as what an earlier part of the
// run had used.
func (a *Allowance) Add(used Amount) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = a.used.plus(used)
}

// Spent reports whether no request is left.
func (a *Allowance) Spent() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used.reaches(a.limit)
}

// ErrSpent is what every [SpentError] is.
var ErrSpent = errors.New("the budget of the run is spent")

// SpentError says that the allowance has no request left.
type SpentError struct {
	Key         string // of the configuration
	Used, Limit Amount
}

// Error names what is spent, by the keys of the configuration.
func (e *SpentError) Error() string {
	var spent []string
	for _, bound := range []struct {
		at   Amount
		text string
	}{
		{Amount{Requests: e.Limit.Requests}, fmt.Sprintf("%d of %d requests", e.Used.Requests, e.Limit.Requests)},
		{Amount{Tokens: e.Limit.Tokens}, fmt.Sprintf("%d of %d tokens", e.Used.Tokens, e.Limit.Tokens)},
		{Amount{Cost: e.Limit.Cost}, fmt.Sprintf("%.6g of %.6g USD", e.Used.Cost, e.Limit.Cost)},
	} {
		if e.Used.reaches(bound.at) {
			spent = append(spent, bound.text)
		}
	}
	return e.Key + " is spent: " + strings.Join(spent, ", ")
}

// Is reports whether the target is [ErrSpent].
func (e *SpentError) Is(target error) bool { return target == ErrSpent }

// Share is what is set aside for one request. Nil is that of a nil allowance.
type Share struct {
	of   *Allowance
	part Amount
}

// Take sets a part aside for one request, or returns a [SpentError]. part is what the
// request is likely to use. Near the bound, requests wait for one another, so what is
// used beyond it is at most what the requests under way use beyond their parts. hold,
// unless nil, is called before each wait until it returns how to release what it holds.
func (a *Allowance) Take(ctx context.Context, part Amount, hold func(context.Context) (release func(), err error)) (*Share, error) {
	if a == nil {
		return nil, nil
	}
	part.Requests = 0 // which is counted at once
	for {
		s, changed, err := a.try(part)
		if s != nil || err != nil {
			return s, err
		}
		if hold != nil {
			release, err := hold(ctx)
			if err != nil {
				return nil, err
			}
			if release != nil {
				defer release()
				hold = nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try sets a part aside if there is enough left, or returns what is closed when that
// may have changed.
func (a *Allowance) try(part Amount) (*Share, <-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.used.reaches(a.limit):
		return nil, nil, &SpentError{a.key, a.used, a.limit}
	case a.open > 0 && a.used.plus(a.aside).plus(part).exceeds(a.limit):
		return nil, a.changed, nil
	}
	a.open++
	a.used.Requests++
	a.aside = a.aside.plus(part)
	return &Share{a, part}, nil, nil
}

// Settle replaces what was set aside by what the request has used, whose number of
// requests does not matter.
func (s *Share) Settle(used Amount) {
	used.Requests = 0
	s.end(used)
}

// Return gives back what was set aside for a request that is not made.
func (s *Share) Return() { s.end(Amount{Requests: -1}) }

func (s *Share) end(used Amount) {
	if s == nil {
		return
	}
	a := s.of
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
	a.used = a.used.plus(used)
	if a.aside = a.aside.minus(s.part); a.open == 0 {
		a.aside = Amount{} // whatever the sums of costs have been rounded to
	}
	close(a.changed)
	a.changed = make(chan struct{})
}
