package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Pooled is a running sandbox that serves one lease after the other.
type Pooled interface {
	// Reusable reports whether it can serve another lease.
	Reusable() bool
	// Close ends it.
	Close(ctx context.Context) error
}

// Pool leases boxes. Boxes of the same key are interchangeable. At most a
// fixed number of boxes exist at a time, whatever their keys: a box counts
// from before its start until after its end.
//
// A caller must not wait for a lease while it holds one, so every wait ends.
type Pool[K comparable, B Pooled] struct {
	limit int

	mu      sync.Mutex
	count   int           // boxes that exist or are being started
	idle    []entry[K, B] // the least recently used first
	changed chan struct{} // closed when a box or a place has become free
}

type entry[K comparable, B Pooled] struct {
	key K
	box B
}

// Starter starts a box. It is called with the context of the lease.
type Starter[B Pooled] func(context.Context) (B, error)

// NewPool makes a pool of at most limit boxes, but at least one.
func NewPool[K comparable, B Pooled](limit int) *Pool[K, B] {
	return &Pool[K, B]{limit: max(1, limit), changed: make(chan struct{})}
}

// Lease returns an idle box of the key or starts one, if need be in the place
// of an idle box of another key. While all are in use it waits. The caller
// releases or replaces the box.
func (p *Pool[K, B]) Lease(ctx context.Context, key K, start Starter[B]) (B, error) {
	var none B
	for {
		e, found, free, changed := p.take(key)
		switch {
		case found && e.key == key && e.box.Reusable():
			return e.box, nil
		case found:
			return p.Replace(ctx, e.box, start)
		case free:
			return p.fill(ctx, start)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return none, fmt.Errorf("waiting for a sandbox: %w", context.Cause(ctx))
		}
	}
}

// take finds an idle box of a key, else a free place, else the idle box that
// was used least recently. What it finds belongs to the caller. If there is
// nothing, the channel says when to look again.
func (p *Pool[K, B]) take(key K) (e entry[K, B], found, free bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(key)
	switch {
	case i < 0 && p.count < p.limit:
		p.count++
		return e, false, true, nil
	case i < 0 && len(p.idle) == 0:
		return e, false, false, p.changed
	}
	i = max(i, 0)
	e = p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return e, true, false, nil
}

// find returns the index of the most recently used idle box of a key, or -1.
// The caller holds the lock.
func (p *Pool[K, B]) find(key K) int {
	for i, e := range slices.Backward(p.idle) {
		if e.key == key {
			return i
		}
	}
	return -1
}

// Spare starts a box if there is a free place and no idle box of the key. ok
// is false if it has not; otherwise the caller releases the box.
func (p *Pool[K, B]) Spare(ctx context.Context, key K, start Starter[B]) (box B, ok bool, err error) {
	p.mu.Lock()
	room := p.count < p.limit && p.find(key) < 0
	if room {
		p.count++
	}
	p.mu.Unlock()
	if !room {
		return box, false, nil
	}
	box, err = p.fill(ctx, start)
	return box, err == nil, err
}

// Replace closes a leased box and starts another in its place. After an error
// the caller has no box.
func (p *Pool[K, B]) Replace(ctx context.Context, old B, start Starter[B]) (B, error) {
	if err := old.Close(context.WithoutCancel(ctx)); err != nil {
		var none B
		p.vacate()
		return none, err
	}
	return p.fill(ctx, start)
}

// fill starts a box in a place that the caller has taken.
func (p *Pool[K, B]) fill(ctx context.Context, start Starter[B]) (B, error) {
	box, err := start(ctx)
	if err != nil {
		var none B
		p.vacate()
		return none, err
	}
	return box, nil
}

// Release gives a leased box back: it stays idle if it is reusable, and is
// closed otherwise.
func (p *Pool[K, B]) Release(ctx context.Context, key K, box B) error {
	if !box.Reusable() {
		err := box.Close(context.WithoutCancel(ctx))
		p.vacate()
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, entry[K, B]{key, box})
	p.wake()
	return nil
}

// vacate frees a place.
func (p *Pool[K, B]) vacate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count--
	p.wake()
}

// wake lets waiting leases look again. The caller holds the lock.
func (p *Pool[K, B]) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Count returns the number of boxes that exist or are being started.
func (p *Pool[K, B]) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Close closes the idle boxes. The caller has released all leases.
func (p *Pool[K, B]) Close(ctx context.Context) error {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var errs []error
	for _, e := range idle {
		errs = append(errs, e.box.Close(ctx))
		p.vacate()
	}
	return errors.Join(errs...)
}
