package pace

import (
	"context"
	"sync"
	"time"

	"securebench/internal/attended"
)

// Lane is what one attempt's agent, or one question, asks. It is safe for concurrent use.
type Lane struct {
	pace *Pace
	turn chan struct{} // has room for the request that waits
	open int           // requests under way
	// limited is when the provider first said that it has too much to do, of late.
	limited time.Time
}

// Lane returns a new lane. It has a place among the others from [Lane.Open] on, or while it
// has a request under way.
func (p *Pace) Lane() *Lane { return &Lane{pace: p, turn: make(chan struct{}, 1)} }

// Open keeps a place for a first request. The returned function gives it up; it can be
// called more than once.
func (l *Lane) Open() (leave func()) {
	l.pace.join(1)
	return sync.OnceFunc(func() { l.pace.join(-1) })
}

func (p *Pace) join(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lanes += n
	p.signal()
}

// Left is how long no request is sent.
func (l *Lane) Left() time.Duration { return l.pace.Left() }

// Hold is called before a request waits that the lane has to have before it can go on. It
// returns what is called after the wait.
type Hold func(ctx context.Context) (release func(), err error)

// Take waits until a request may be sent. hold is called before a wait, unless the lane has
// another request under way, whose answer has to be read meanwhile; nil is not called.
func (l *Lane) Take(ctx context.Context, hold Hold) (*Request, error) {
	if s := l.try(false); s != nil { // nobody waits
		return s, nil
	}
	select {
	case l.turn <- struct{}{}: // one for each lane: not all look again at each change
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.pace.wait(1)
	defer l.pace.wait(-1)
	var up <-chan struct{} // the lane has waited long enough for its first request
	for late := false; ; {
		changed := l.pace.next()
		if s := l.try(late); s != nil {
			return s, nil
		}
		if up == nil && l.idle() {
			t := attended.NewTimer(MaxWait)
			defer t.Stop()
			up = t.C
			if hold != nil {
				release, err := hold(ctx)
				if err != nil {
					return nil, err
				}
				defer release()
			}
		}
		select {
		case <-changed:
		case <-up:
			late = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (p *Pace) wait(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += n
}

// next returns what is closed when those that wait may look again.
func (p *Pace) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// idle reports whether the lane has no request under way.
func (l *Lane) idle() bool {
	l.pace.mu.Lock()
	defer l.pace.mu.Unlock()
	return l.open == 0
}

// try begins a request, or returns nil if it has to wait. late is set if the lane has
// waited for long enough.
func (l *Lane) try(late bool) *Request {
	p := l.pace
	p.mu.Lock()
	defer p.mu.Unlock()
	first := l.open == 0
	passes := float64(max(p.lanes, p.busy)+p.open-p.busy) < p.now // each lane can still have its first
	if first {
		passes = late || float64(p.busy) < p.now
	}
	if !passes {
		return nil
	}
	if first {
		p.busy++
	}
	l.open++
	p.open++
	return &Request{lane: l, sent: time.Now()}
}

// Request is one that is under way.
type Request struct {
	lane *Lane
	sent time.Time
	once sync.Once
}

// Answered notes that the provider answers. The request is under way until [Request.End].
func (r *Request) Answered() { r.lane.pace.answered(r.lane, r.sent) }

// Failed ends a request that met a failure, and returns how long to wait before the next.
func (r *Request) Failed(f Failure) time.Duration {
	defer r.End()
	return r.lane.pace.failed(r.lane, r.sent, f)
}

// End ends the request. It can be called more than once, and on nil.
func (r *Request) End() {
	if r != nil {
		r.once.Do(r.end)
	}
}

func (r *Request) end() {
	p := r.lane.pace
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	if r.lane.open--; r.lane.open == 0 {
		p.busy--
	}
	p.signal()
}
