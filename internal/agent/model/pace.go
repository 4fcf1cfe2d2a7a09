package model

import (
	"context"
	"fmt"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/gateway/pace"
	"securebench/internal/gateway/relay"
)

// firstWait is the wait after a first failure.
const firstWait = 500 * time.Millisecond

// patience waits for as long as the question itself or all of them should, at
// most for as long as an attempt may wait in all.
func (c *Client) patience(ctx context.Context, r *Result, wait time.Duration) error {
	wait = max(wait, c.pace.Left())
	if wait <= 0 {
		return ctx.Err()
	}
	left := relay.MaxHold - r.Waited
	began := time.Now()
	if err := attended.Pause(ctx, min(wait, left)); err != nil {
		return err
	}
	r.Waited += time.Since(began)
	if wait > left {
		return fmt.Errorf("%w; the last reason: %s", relay.ErrWaited, r.Tries[len(r.Tries)-1].Error)
	}
	return nil
}

// inTurn asks when a request of the question may be sent, and returns how long to wait before
// the next. The provider answers others until then, so that is no part of the patience.
func (c *Client) inTurn(ctx context.Context, place *pace.Place, r *Result, ask func() (try, error)) (t try, wait time.Duration, err error) {
	began := time.Now()
	turn, err := place.Take(ctx, nil)
	r.Queued += time.Since(began)
	if err != nil {
		return t, 0, err
	}
	defer turn.End()
	t, err = ask()
	switch f := t.failure; {
	case err != nil || ctx.Err() != nil:
	case t.err == nil:
		turn.Answered()
	case f.temporary && !f.form:
		wait = turn.Failed(pace.Failure{Overloaded: f.overloaded, Asked: f.after, First: c.firstWait, Before: len(r.Tries)})
	}
	return t, wait, err
}

// notice tells the operator about waits, now and then.
type notice struct {
	tell func(string)

	mu   sync.Mutex
	last time.Time
}

// between is the time between two lines.
const between = 30 * time.Second

// waiting says that the provider makes questions wait.
func (n *notice) waiting(f failure) { n.say("waiting for the provider: " + f.why) }

func (n *notice) say(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tell == nil || time.Since(n.last) < between {
		return
	}
	n.last = time.Now()
	n.tell(line)
}
