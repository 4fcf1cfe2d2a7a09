package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"securebench/internal/family"
)

// startLimit bounds the wait for sandboxes. Beyond it the engine is at fault.
const startLimit = 2 * time.Minute

// errSlow is the cause of a wait that took too long.
var errSlow = errors.New("the engine takes too long")

// pool keeps oracles warm. At most so many exist at once, whatever their
// images: an oracle counts from before its start until after its end.
//
// Nobody waits for an oracle while holding one, so every wait ends.
type pool struct {
	start func(context.Context, family.Case) (*oracle, error)
	most  int

	mu      sync.Mutex
	count   int           // of places taken
	idle    []*oracle     // the least recently used first
	changed chan struct{} // closed when an oracle or a place has come free
}

func newPool(most int, start func(context.Context, family.Case) (*oracle, error)) *pool {
	return &pool{start: start, most: max(1, most), changed: make(chan struct{})}
}

// lease takes a warm oracle or starts one, in the place of an idle one of
// another kind if need be. While all are in use it waits.
func (p *pool) lease(ctx context.Context, c family.Case) (*oracle, error) {
	for {
		o, free, changed := p.take(keyOf(c))
		switch {
		case o != nil && o.key == keyOf(c) && o.alive():
			return o.serves(c), nil
		case o != nil:
			return p.replace(ctx, o, c)
		case free:
			return p.fill(ctx, c)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for an oracle: %w", context.Cause(ctx))
		}
	}
}

// take finds an idle oracle of a kind, else a free place, else the idle oracle
// that was used least recently. What it finds is the caller's. If there is
// nothing, the channel says when to look again.
func (p *pool) take(key poolKey) (o *oracle, free bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(key)
	switch {
	case i < 0 && p.count < p.most:
		p.count++
		return nil, true, nil
	case i < 0 && len(p.idle) == 0:
		return nil, false, p.changed
	}
	i = max(i, 0)
	o = p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return o, false, nil
}

// find returns the index of the idle oracle of a kind that was used last, or
// -1. The caller holds the lock.
func (p *pool) find(key poolKey) int {
	for i, o := range slices.Backward(p.idle) {
		if o.key == key {
			return i
		}
	}
	return -1
}

// spare starts an oracle if there is a free place and none of its kind is
// idle; else it returns nil.
func (p *pool) spare(ctx context.Context, c family.Case) (*oracle, error) {
	p.mu.Lock()
	room := p.count < p.most && p.find(keyOf(c)) < 0
	if room {
		p.count++
	}
	p.mu.Unlock()
	if !room {
		return nil, nil
	}
	return p.fill(ctx, c)
}

// replace puts a fresh oracle into the place of another.
func (p *pool) replace(ctx context.Context, old *oracle, c family.Case) (*oracle, error) {
	if err := old.close(context.WithoutCancel(ctx)); err != nil {
		p.vacate()
		return nil, err
	}
	return p.fill(ctx, c)
}

// fill starts an oracle in a place that the caller has taken.
func (p *pool) fill(ctx context.Context, c family.Case) (*oracle, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	o, err := p.start(ctx, c)
	if err != nil {
		p.vacate()
		return nil, err
	}
	return o.serves(c), nil
}

// release keeps an oracle that is between rows and closes any other.
func (p *pool) release(ctx context.Context, o *oracle) error {
	if o.stale || !o.alive() {
		err := o.close(context.WithoutCancel(ctx))
		p.vacate()
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, o)
	p.wake()
	return nil
}

// vacate gives a place back.
func (p *pool) vacate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count--
	p.wake()
}

// wake lets those who wait look again. The caller holds the lock.
func (p *pool) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// close ends the idle oracles. None is leased any more.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var errs []error
	for _, o := range idle {
		errs = append(errs, o.close(ctx))
		p.vacate()
	}
	return errors.Join(errs...)
}
