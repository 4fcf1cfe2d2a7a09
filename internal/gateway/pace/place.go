package pace

import (
	"context"
	"sync"
	"time"

	"securebench/internal/attended"
)

// Place is that of one attempt's agent, or of one question, beside the others that ask the
// provider. It is safe for concurrent use.
type Place struct {
	pace *Pace
	turn chan struct{} // has room for the request that waits
	open int           // requests under way
	// limited is when the provider first said that it has too much to do, of late.
	limited time.Time
}

// Place returns a new place. It counts beside the others from [Place.Open] on, or while it
// has a request under way.
func (p *Pace) Place() *Place { return &Place{pace: p, turn: make(chan struct{}, 1)} }

// Open keeps room for a first request. The returned function gives it up; it can be called
// more than once.
func (pl *Place) Open() (leave func()) {
	pl.pace.join(1)
	return sync.OnceFunc(func() { pl.pace.join(-1) })
}

func (p *Pace) join(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places += n
	p.signal()
}

// Left is how long no request is sent.
func (pl *Place) Left() time.Duration { return pl.pace.Left() }

// Hold is called before a wait. It returns what is called after it.
type Hold func(ctx context.Context) (release func(), err error)

// Take waits until a request may be sent. hold is called before a wait, unless the place has
// another request under way, whose answer has to be read meanwhile; nil is not called.
func (pl *Place) Take(ctx context.Context, hold Hold) (*Request, error) {
	if s := pl.try(false); s != nil { // nobody waits
		return s, nil
	}
	select {
	case pl.turn <- struct{}{}: // one for each place: not all look again at each change
		defer func() { <-pl.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	pl.pace.wait(1)
	defer pl.pace.wait(-1)
	var up <-chan struct{} // the place has waited long enough for its first request
	for late := false; ; {
		changed := pl.pace.next()
		if s := pl.try(late); s != nil {
			return s, nil
		}
		if up == nil && pl.idle() {
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

// idle reports whether the place has no request under way.
func (pl *Place) idle() bool {
	pl.pace.mu.Lock()
	defer pl.pace.mu.Unlock()
	return pl.open == 0
}

// try begins a request, or returns nil if it has to wait. late is set if the place has
// waited for long enough.
func (pl *Place) try(late bool) *Request {
	p := pl.pace
	p.mu.Lock()
	defer p.mu.Unlock()
	first := pl.open == 0
	passes := float64(max(p.places, p.busy)+p.open-p.busy) < p.now // each place can still have its first
	if first {
		passes = late || float64(p.busy) < p.now
	}
	if !passes {
		return nil
	}
	if first {
		p.busy++
	}
	pl.open++
	p.open++
	return &Request{place: pl, sent: time.Now()}
}

// Request is one that is under way.
type Request struct {
	place *Place
	sent  time.Time
	once  sync.Once
}

// Answered notes that the provider answers. The request is under way until [Request.End].
func (r *Request) Answered() { r.place.pace.answered(r.place, r.sent) }

// Failed ends a request that met a failure, and returns how long to wait before the next.
func (r *Request) Failed(f Failure) time.Duration {
	defer r.End()
	return r.place.pace.failed(r.place, r.sent, f)
}

// End ends the request. It can be called more than once, and on nil.
func (r *Request) End() {
	if r != nil {
		r.once.Do(r.end)
	}
}

func (r *Request) end() {
	p := r.place.pace
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	if r.place.open--; r.place.open == 0 {
		p.busy--
	}
	p.signal()
}
