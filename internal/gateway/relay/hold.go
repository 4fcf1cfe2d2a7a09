package relay

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"securebench/internal/attended"
)

// ErrWaited is wrapped by the error of [Attempt.Err] when the attempt has waited
// for the provider for as long as it may.
var ErrWaited = errors.New("the provider did not answer within the time that an attempt may wait for it")

// holds measures how long the agent is held. Holds that overlap count
// once.
type holds struct {
	mu    sync.Mutex
	n     int
	watch *attended.Timer // of the hold under way
	total time.Duration
	// turns is how long the attempt waited for its turn beside others. The provider answers
	// those, so it is no part of how long an attempt may wait for it.
	turns time.Duration
}

func (h *holds) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n++; h.n == 1 {
		h.watch = attended.AfterFunc(math.MaxInt64, func() {})
	}
}

func (h *holds) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n--; h.n == 0 {
		h.watch.Stop()
		h.total += h.watch.Spent()
	}
}

// time returns the time so far.
func (h *holds) time() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n > 0 {
		return h.total + h.watch.Spent()
	}
	return h.total
}

// left returns for how long the agent may still be held for want of an answer.
func (h *holds) left() time.Duration {
	held := h.time()
	h.mu.Lock()
	defer h.mu.Unlock()
	return MaxHold + h.turns - held
}

// turn adds a wait for a turn.
func (h *holds) turn(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turns += d
}

// held is one request's hold of the agent.
type held struct {
	a       *Attempt
	release func()

	mu    sync.Mutex
	timer *attended.Timer
	over  bool
}

// holdAgent stops the agent, until end is called or the attempt has been held
// for as long as it may be.
func (a *Attempt) holdAgent(ctx context.Context) (*held, error) {
	if a.holds.left() <= 0 {
		return nil, ErrWaited
	}
	h := &held{a: a, release: func() {}}
	a.holds.begin()
	if a.hold != nil {
		release, err := a.hold(ctx)
		if err != nil {
			a.holds.end()
			return nil, err
		}
		h.release = release
	}
	h.mu.Lock() // the timer may be over at once
	defer h.mu.Unlock()
	h.timer = attended.AfterFunc(a.holds.left(), h.end)
	return h, nil
}

// end lets the agent go on. It can be called more than once, and on nil.
func (h *held) end() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	h.over = true
	h.timer.Stop()
	h.release()
	h.a.holds.end()
}

// sleep waits, at most for as long as the attempt may still be held.
func (a *Attempt) sleep(ctx context.Context, d time.Duration) error {
	left := a.holds.left()
	if left <= 0 {
		return ErrWaited
	}
	t := attended.NewTimer(min(d, left))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// holdTurn stops the agent while a request waits for its turn.
func (a *Attempt) holdTurn(ctx context.Context) (release func(), err error) {
	began, goOn := time.Now(), func() {}
	a.holds.begin()
	if a.hold != nil {
		if goOn, err = a.hold(ctx); err != nil {
			a.holds.end()
			return nil, err
		}
	}
	return func() {
		goOn()
		a.holds.end()
		a.holds.turn(time.Since(began))
	}, nil
}
