// Package attended limits how long others may take, counting only the time in
// which this process runs.
//
// A stopped process (SIGSTOP, Ctrl-Z) or machine sees neither ends nor deadlines.
// When it continues, both are there at once, and any choice between them would be
// luck. So time in which this process did not run counts towards no limit, and
// after it there is a moment in which ends that came meanwhile become known. No
// clock of the system tells that a process was stopped; a heartbeat that comes
// late does.
//
// What is limited may have run meanwhile: each gap extends its limit by the length of
// the gap, and all gaps together by at most [maxGrace] more.
package attended

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// beat is the time between two looks at the clock.
	beat = 500 * time.Millisecond
	// tolerance is how late a beat may be on a busy machine.
	tolerance = 250 * time.Millisecond
	// grace is the moment after a gap in which ends become known.
	grace = 2 * time.Second
	// maxGrace bounds the moments of one limit, also where every beat is late.
	maxGrace = time.Minute
)

// Timer is a [time.Timer] for time that this process has run.
type Timer struct {
	C <-chan struct{} // gets a value when the time is up; nil for [AfterFunc]

	fire  func()
	mu    sync.Mutex
	timer *time.Timer // of the next beat
	step  time.Duration
	since time.Time // of the last beat
	spent time.Duration
	left  time.Duration
	grace time.Duration // that gaps may still add
	over  bool
}

// NewTimer makes a timer that sends to its channel after d.
func NewTimer(d time.Duration) *Timer {
	c := make(chan struct{}, 1)
	t := AfterFunc(d, func() { c <- struct{}{} })
	t.C = c
	return t
}

// AfterFunc calls f in its own goroutine after d.
func AfterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{fire: f, left: d, grace: maxGrace}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arm()
	return t
}

// arm waits for the next beat.
func (t *Timer) arm() {
	t.since, t.step = time.Now(), max(0, min(t.left, beat))
	t.timer = time.AfterFunc(t.step, t.tick)
}

func (t *Timer) tick() {
	if t.up() {
		t.fire()
	}
}

// up counts a beat and reports whether it was the last.
func (t *Timer) up() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.count()
	if t.left > 0 {
		t.arm()
		return false
	}
	t.over = true
	return true
}

// count takes what has passed since the last beat from the time that is left.
func (t *Timer) count() {
	passed := time.Since(t.since)
	gap := passed - t.step
	if gap > tolerance {
		passed = t.step
	}
	t.spent += passed
	t.left -= passed
	if more := min(grace, gap) - t.left; gap > tolerance && more > 0 {
		more = min(more, t.grace)
		t.left += more
		t.grace -= more
	}
}

// Stop stops the timer and reports whether it was running.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	t.timer.Stop()
	t.count()
	return true
}

// Left returns how much of its time a stopped timer had left.
func (t *Timer) Left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.left)
}

// Spent returns how much of its time has passed up to the last beat, or until the timer
// stopped.
func (t *Timer) Spent() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return t.spent
	}
	return t.spent + min(time.Since(t.since), t.step)
}

// WithTimeout is [context.WithTimeout] for time that this process has run.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return WithTimeoutCause(ctx, d, context.DeadlineExceeded)
}

// WithTimeoutCause is [context.WithTimeoutCause] for time that this process has run.
func WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	out := &limited{Context: inner, cause: &overdue{cause}}
	out.timer = AfterFunc(d, func() { cancel(out.cause) })
	return out, func() {
		out.timer.Stop()
		cancel(context.Canceled)
	}
}

// limited is a context with a timer.
type limited struct {
	context.Context
	timer *Timer
	cause *overdue
}

// overdue marks the cause of one context.
type overdue struct{ error }

func (o *overdue) Unwrap() error { return o.error }

// Err returns the error of a deadline if the time is up.
func (l *limited) Err() error {
	err := l.Context.Err()
	if err != nil && errors.Is(context.Cause(l.Context), l.cause) {
		return context.DeadlineExceeded
	}
	return err
}

// Value returns the timer, or what the parent has.
func (l *limited) Value(key any) any {
	if key == (timerKey{}) {
		return l.timer
	}
	return l.Context.Value(key)
}

// timerKey is the key of a context's timer.
type timerKey struct{}

// Spent returns how much time has passed for the innermost context of [WithTimeoutCause].
func Spent(ctx context.Context) time.Duration {
	if t, ok := ctx.Value(timerKey{}).(*Timer); ok {
		return t.Spent()
	}
	return 0
}

// Await waits for what a channel brings. What is there already wins over the end of ctx,
// whose cause is the error. open is false if the channel is closed.
func Await[T any](ctx context.Context, ends <-chan T) (end T, open bool, err error) {
	select {
	case end, open = <-ends:
		return end, open, nil
	case <-ctx.Done():
	}
	select {
	case end, open = <-ends:
		return end, open, nil
	default:
		return end, false, context.Cause(ctx)
	}
}

// Known returns an end that is known already, which wins over a deadline that has passed.
func Known[T any](ends <-chan T) (end T, ok bool) {
	select {
	case end, ok = <-ends:
	default:
	}
	return end, ok
}

// Pause waits for d, or until ctx ends, and returns its cause then.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
