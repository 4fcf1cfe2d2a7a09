// Package capacity decides what runs at the same time: it adds up what tasks may
// need of the machine of their sandboxes, and never admits more than there is.
package capacity

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Amount is a part of a machine.
type Amount struct {
	Memory int64 // bytes
	Disk   int64 // bytes
	CPUs   int64 // thousandths of a core
}

// plus adds amounts.
func (a Amount) plus(b Amount) Amount {
	return Amount{a.Memory + b.Memory, a.Disk + b.Disk, a.CPUs + b.CPUs}
}

// minus subtracts an amount.
func (a Amount) minus(b Amount) Amount {
	return Amount{a.Memory - b.Memory, a.Disk - b.Disk, a.CPUs - b.CPUs}
}

// times multiplies an amount.
func (a Amount) times(n int64) Amount { return Amount{a.Memory * n, a.Disk * n, a.CPUs * n} }

// max returns the larger of each part.
func (a Amount) max(b Amount) Amount {
	return Amount{max(a.Memory, b.Memory), max(a.Disk, b.Disk), max(a.CPUs, b.CPUs)}
}

// within reports whether no part of a is larger than in b.
func (a Amount) within(b Amount) bool {
	return a.Memory <= b.Memory && a.Disk <= b.Disk && a.CPUs <= b.CPUs
}

// gate admits holders of parts of a whole, in the order in which they ask: a
// large one that waits lets no smaller one past, so each gets its turn as soon as
// those before it have ended. It is safe for concurrent use.
type gate struct {
	whole Amount

	mu      sync.Mutex
	used    Amount
	waiting []*waiter
}

type waiter struct {
	need  Amount
	ready chan struct{} // closed when the need was granted
}

// newGate makes a gate for a whole.
func newGate(whole Amount) *gate { return &gate{whole: whole} }

// Grant is a part of the whole that is in use.
type Grant struct {
	gate *gate
	need Amount
	once sync.Once
}

// acquire waits for its turn, and then until the need is free. A need that is
// larger than the whole is an error.
//
// A caller must not hold a grant while it waits, so every wait ends.
func (g *gate) acquire(ctx context.Context, need Amount) (*Grant, error) {
	if !need.within(g.whole) {
		return nil, fmt.Errorf("a need of %s is more than the whole, %s", need, g.whole)
	}
	g.mu.Lock()
	if len(g.waiting) == 0 && g.fits(need) {
		g.used = g.used.plus(need)
		g.mu.Unlock()
		return &Grant{gate: g, need: need}, nil
	}
	w := &waiter{need, make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	select {
	case <-w.ready:
		return &Grant{gate: g, need: need}, nil
	case <-ctx.Done():
		g.leave(w)
		return nil, fmt.Errorf("waiting for room on the machine: %w", context.Cause(ctx))
	}
}

// try is Acquire without a wait: it returns nil if others wait or the need is
// not free.
func (g *gate) try(need Amount) *Grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) > 0 || !g.fits(need) {
		return nil
	}
	g.used = g.used.plus(need)
	return &Grant{gate: g, need: need}
}

// Release gives the part back. It is idempotent; nil holds nothing.
func (t *Grant) Release() {
	if t == nil {
		return
	}
	t.once.Do(func() {
		t.gate.mu.Lock()
		defer t.gate.mu.Unlock()
		t.gate.used = t.gate.used.minus(t.need)
		t.gate.admit()
	})
}

// fits reports whether a need is free. The caller holds the lock.
func (g *gate) fits(need Amount) bool { return g.used.plus(need).within(g.whole) }

// admit lets in who waits, the first first. The caller holds the lock.
func (g *gate) admit() {
	for len(g.waiting) > 0 && g.fits(g.waiting[0].need) {
		w := g.waiting[0]
		g.waiting = g.waiting[1:]
		g.used = g.used.plus(w.need)
		close(w.ready)
	}
}

// leave ends a wait. Those behind it may fit then; what was granted meanwhile is
// given back.
func (g *gate) leave(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, w); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	} else {
		g.used = g.used.minus(w.need)
	}
	g.admit()
}

// String names the parts.
func (a Amount) String() string {
	return fmt.Sprintf("%s of memory, %s of disk and %g cores", Bytes(a.Memory), Bytes(a.Disk), float64(a.CPUs)/core)
}
