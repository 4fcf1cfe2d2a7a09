package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// MaxWorkers is how many attempts a run that can be changed makes at the same time at
// most, unless it began with more.
const MaxWorkers = 64

// ErrDrained is returned by [Run] if it was drained and attempts have no record. The
// records of the others are kept.
var ErrDrained = errors.New("drained: the attempts under way have ended, and no other began")

// Control changes a run while it goes on. It is safe for concurrent use; its zero value
// is ready, and changes nothing before the run begins and after it ended.
type Control struct {
	mu       sync.Mutex
	changed  chan struct{} // closed when anything changes
	workers  int           // 0 when no run goes on
	most     int
	paused   bool
	draining bool
	running  int // attempts
	last     context.CancelCauseFunc
	stop     context.CancelCauseFunc
	gates    []*gate
}

// ControlState is what a control is set to.
type ControlState struct {
	Paused   bool
	Draining bool
	Workers  int
	Most     int // workers that there can be
	Running  int // attempts
}

// errNotRunning is the error for a change when no run goes on.
var errNotRunning = errors.New("the run does not go on")

// State returns what the control is set to.
func (c *Control) State() ControlState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ControlState{Paused: c.paused, Draining: c.draining, Workers: c.workers, Most: c.most, Running: c.running}
}

// Pause lets no other attempt begin until [Control.Resume]. Attempts under way go on to
// their end, so that a pause is no part of the time of any.
func (c *Control) Pause() error { return c.change(func() { c.paused = true }) }

// Resume ends a pause.
func (c *Control) Resume() error { return c.change(func() { c.paused = false }) }

// Drain lets no other attempt begin. When those under way have ended, the run does.
func (c *Control) Drain() error {
	return c.change(func() {
		c.draining = true
		c.last(ErrDrained)
	})
}

// Stop interrupts the run.
func (c *Control) Stop() error { return c.change(func() { c.stop(context.Canceled) }) }

// SetWorkers changes how many attempts are made at the same time. Those above it go on to
// their end.
func (c *Control) SetWorkers(n int) error {
	if most := c.State().Most; most > 0 && (n < 1 || n > most) {
		return fmt.Errorf("%d workers: want 1 to %d", n, most)
	}
	return c.change(func() { c.workers = n })
}

// change changes the control while a run goes on.
func (c *Control) change(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers == 0 {
		return errNotRunning
	}
	f()
	for _, g := range c.gates {
		g.admit()
	}
	c.tell()
	return nil
}

// tell wakes those that wait.
func (c *Control) tell() {
	if c.changed != nil {
		close(c.changed)
	}
	c.changed = make(chan struct{})
}

// begin sets the control for a run, with the gates to preparing and to working.
func (c *Control) begin(workers, most int, last, stop context.CancelCauseFunc) (preparing, working *gate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers, c.most, c.last, c.stop = workers, most, last, stop
	c.gates = []*gate{{control: c}, {control: c}}
	c.tell()
	return c.gates[0], c.gates[1]
}

// end ends the control's run.
func (c *Control) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers, c.paused = 0, false
	c.tell()
}

// unpaused waits until there is no pause. It reports false when the context has ended.
func (c *Control) unpaused(ctx context.Context) bool {
	for {
		c.mu.Lock()
		paused, changed := c.paused, c.changed
		c.mu.Unlock()
		if !paused {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// start counts an attempt that is under way, and returns what ends that.
func (c *Control) start() func() {
	c.mu.Lock()
	c.running++
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.running--
		c.mu.Unlock()
	}
}

// gate lets as many through at the same time as there are workers.
type gate struct {
	control *Control
	// Of the control's lock:
	in      int
	waiting []chan struct{} // closed when one is let in
}

// enter waits until another may come in. It reports false when the context has ended.
func (g *gate) enter(ctx context.Context) bool {
	g.control.mu.Lock()
	if ctx.Err() != nil {
		g.control.mu.Unlock()
		return false
	}
	mine := make(chan struct{})
	g.waiting = append(g.waiting, mine)
	g.admit()
	g.control.mu.Unlock()
	select {
	case <-mine:
		return true
	case <-ctx.Done():
	}
	g.control.mu.Lock()
	defer g.control.mu.Unlock()
	if i := slices.Index(g.waiting, mine); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return false
	}
	return true // it was let in meanwhile
}

// admit lets in who waits, as far as there is room.
func (g *gate) admit() {
	for g.in < g.control.workers && len(g.waiting) > 0 {
		g.in++
		close(g.waiting[0])
		g.waiting = g.waiting[1:]
	}
}

// leave lets another in.
func (g *gate) leave() {
	g.control.mu.Lock()
	defer g.control.mu.Unlock()
	g.in--
	g.admit()
}
