package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/gateway/relay"
)

// The waits after failures: the first, and the longest that the provider did not
// ask for.
const (
	firstWait = 500 * time.Millisecond
	maxWait   = time.Minute
)

// pace is the patience that all questions share.
type pace struct {
	first time.Duration // the wait after a first failure

	mu    sync.Mutex
	until time.Time // no request is sent before
}

// failure notes a failure and returns how long the question should wait. If the
// provider has too much to do, all questions wait.
func (p *pace) failure(f failure, before int) time.Duration {
	wait := min(maxWait, p.first<<min(before, 10))
	if f.after > 0 {
		wait = f.after
	}
	wait += rand.N(wait/4 + 1) // so that waiting questions do not come all at once
	if !f.overloaded {
		return wait
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if end := time.Now().Add(min(wait, maxWait)); end.After(p.until) {
		p.until = end
	}
	return wait
}

// success ends the wait of all: the provider answers again.
func (p *pace) success() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
}

func (p *pace) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until)
}

// patience waits for as long as the question itself or all of them should, at
// most for as long as an attempt may wait in all.
func (c *Client) patience(ctx context.Context, r *Result, wait time.Duration) error {
	wait = max(wait, c.pace.left())
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
