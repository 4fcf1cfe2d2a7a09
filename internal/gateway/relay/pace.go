package relay

import (
	"math/rand/v2"
	"sync"
	"time"

	"securebench/internal/gateway/upstream"
)

// maxBackOff bounds the wait that the provider did not ask for.
const maxBackOff = time.Minute

// limitedFor is for how long it counts against an attempt that others succeed.
const limitedFor = 10 * time.Minute

// pace is the back-off that all attempts share.
type pace struct {
	mu    sync.Mutex
	until time.Time // no request is sent before
	by    *Attempt  // whose answer about load set that; nil is none
	// broken is the attempt that last saw an error of the provider's that says
	// nothing about load, since one succeeded.
	broken *Attempt
	last   [2]success // of two attempts, the last first
}

// success is a request that the provider answered.
type success struct {
	of   *Attempt
	sent time.Time
}

// left is how long the pause lasts.
func (p *pace) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until)
}

// failure notes that the provider asked for patience or failed, and returns how
// long the request should wait. try counts its failures before.
//
// Answers about load make every attempt wait, for a minute at most. Any error may
// be of one attempt's making, by what it asks for or how often. So one makes
// others wait no more once the provider has answered another since; and errors
// that say nothing about load do it only once two attempts have seen one.
func (p *pace) failure(a *Attempt, status int, asked time.Duration, try int) time.Duration {
	wait := min(maxBackOff, time.Second<<min(try, 10))
	if asked > 0 {
		wait = min(asked, MaxHold)
	}
	wait += rand.N(wait/4 + 1) // so that waiting requests do not come all at once
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var shared bool
	var by *Attempt
	if upstream.Overloaded(status) {
		if now.Sub(a.limited) > limitedFor {
			a.limited = now
		}
		shared, by = !p.answersOthers(a), a
	} else {
		shared = p.broken != nil && p.broken != a
		p.broken = a
	}
	if end := now.Add(min(wait, maxBackOff)); shared && end.After(p.until) {
		p.until, p.by = end, by
	}
	return wait
}

// answersOthers reports whether the provider has answered a request of another
// attempt that was sent since this one was limited.
func (p *pace) answersOthers(a *Attempt) bool {
	for _, s := range p.last {
		if s.of != nil && s.of != a && !s.sent.Before(a.limited) {
			return true
		}
	}
	return false
}

// success notes that the provider answered a request.
func (p *pace) success(a *Attempt, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = nil
	if p.last[0].of != a {
		p.last[1] = p.last[0]
	} else if p.last[0].sent.After(sent) {
		return
	}
	p.last[0] = success{a, sent}
	if p.by != nil && p.answersOthers(p.by) {
		p.until, p.by = time.Time{}, nil
	}
}
