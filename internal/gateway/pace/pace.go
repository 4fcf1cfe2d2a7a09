// Package pace is the patience that all who ask one provider share: the agents of a run,
// its own questions to a model, and its judge. It says how many requests may be under way,
// and for how long all wait when the provider has too much to do.
//
// The number adapts to the provider. It falls by half when that has too much to do, and
// grows by one for about as many answers as requests may be under way.
//
// An agent may be hostile: it may have many requests under way, whose answers it does not
// read. So the requests of one [Place] take nothing from another place. Its first request
// waits only while more places than the provider bears have one under way, and never for
// longer than [MaxWait]. All others of a place share what is left when each place has one.
package pace

import (
	"cmp"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// MaxWait is how long a place that has no request under way waits at most, unless the
// provider itself asked for more.
const MaxWait = time.Minute

// limitedFor is for how long it counts against a place that others succeed.
const limitedFor = 10 * time.Minute

// Pace is that of one provider. It is safe for concurrent use.
type Pace struct {
	mu   sync.Mutex
	most int     // requests under way; 0 is no bound
	now  float64 // how many may be

	places  int           // that are open
	busy    int           // places with a request under way
	open    int           // requests under way
	waiting int           // places of which a request waits for its turn
	cut     time.Time     // when now was last cut
	changed chan struct{} // closed when a request that waits may be sent

	until time.Time // no request is sent before
	by    *Place    // whose answer about load set that; nil is none
	// broken is the place that last saw an error of the provider's that says nothing about
	// load, since one succeeded.
	broken *Place
	last   [2]success // of two places, the last first

	telling sync.Mutex
	tell    func(State)
	told    State
	lowest  int // that was told
}

// success is a request that the provider answered.
type success struct {
	of   *Place
	sent time.Time
}

// State is how many requests may be under way.
type State struct {
	Limit int  // 0 is no bound
	Cut   bool // it fell, because the provider has too much to do
	// Lowest says that it was never so low.
	Lowest bool
}

// New returns the pace of a provider, at which at most so many requests are under way; 0 is
// no bound.
func New(most int) *Pace {
	p := &Pace{now: math.Inf(1), changed: make(chan struct{})}
	p.bound(most)
	return p
}

// bound lowers the bound on the requests under way, if that is more.
func (p *Pace) bound(most int) {
	defer p.report()
	p.mu.Lock()
	defer p.mu.Unlock()
	if most > 0 && (p.most == 0 || most < p.most) {
		p.most, p.now = most, min(p.now, float64(most))
	}
}

// Left is how long no request is sent.
func (p *Pace) Left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until)
}

// Counts are how many requests may be under way, 0 if nothing bounds them, how many are, and
// of how many places one waits for its turn.
func (p *Pace) Counts() (limit, open, waiting int) {
	limit, _ = p.limit()
	p.mu.Lock()
	defer p.mu.Unlock()
	return limit, p.open, p.waiting
}

// Failure is what a request met.
type Failure struct {
	Overloaded bool          // the provider has too much to do
	Asked      time.Duration // how long it asks to wait; 0 if it does not say
	First      time.Duration // the wait after a first failure; 0 is a second
	Before     int           // failures of the request before
}

// wait is how long the request should wait.
func (f Failure) wait() time.Duration {
	wait := cmp.Or(f.Asked, min(MaxWait, cmp.Or(f.First, time.Second)<<min(f.Before, 10)))
	return wait + rand.N(wait/4+1) // so that waiting requests do not come all at once
}

// failed notes that a request of a place, which is still under way, met a failure.
//
// Answers about load make every place wait, for [MaxWait] at most, and lower the number of
// requests under way. Any error may be of one place's making, by what it asks for or how
// often. So one makes others wait no more once the provider has answered another since; and
// errors that say nothing about load do it only once two places have seen one.
func (p *Pace) failed(pl *Place, sent time.Time, f Failure) time.Duration {
	wait := f.wait()
	defer p.report()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var shared bool
	var by *Place
	if f.Overloaded {
		if now.Sub(pl.limited) > limitedFor {
			pl.limited = now
		}
		if shared, by = !p.answersOthers(pl), pl; shared && sent.After(p.cut) { // or it was sent at the former pace
			p.now, p.cut = max(1, math.Floor(min(p.now, float64(p.open))/2)), now
		}
	} else {
		shared = p.broken != nil && p.broken != pl
		p.broken = pl
	}
	if end := now.Add(min(wait, MaxWait)); shared && end.After(p.until) {
		p.until, p.by = end, by
	}
	return wait
}

// answersOthers reports whether the provider has answered a request of another place that
// was sent since this one was limited.
func (p *Pace) answersOthers(pl *Place) bool {
	for _, s := range p.last {
		if s.of != nil && s.of != pl && !s.sent.Before(pl.limited) {
			return true
		}
	}
	return false
}

// answered notes that the provider answered a request, which is still under way.
func (p *Pace) answered(pl *Place, sent time.Time) {
	defer p.report()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grows() {
		p.now = min(p.now+1/p.now, float64(cmp.Or(p.most, math.MaxInt32)))
		p.signal()
	}
	p.broken = nil
	if p.last[0].of != pl {
		p.last[1] = p.last[0]
	} else if p.last[0].sent.After(sent) {
		return
	}
	p.last[0] = success{pl, sent}
	if p.by != nil && p.answersOthers(p.by) {
		p.until, p.by = time.Time{}, nil
	}
}

// grows reports whether an answer says that more requests could be under way: not if there
// are far fewer than may be.
func (p *Pace) grows() bool {
	return !math.IsInf(p.now, 1) && float64(p.open) >= p.now/2
}

// signal lets those that wait look again.
func (p *Pace) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// limit is how many requests may be under way, 0 if nothing bounds them.
func (p *Pace) limit() (n int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if math.IsInf(p.now, 1) {
		return 0, false
	}
	return int(p.now), !p.cut.IsZero()
}

// report tells how many requests may be under way, if that has changed. Nobody waits for
// one who is telling it: the next change is told again.
func (p *Pace) report() {
	if p.tell == nil || !p.telling.TryLock() {
		return
	}
	defer p.telling.Unlock()
	n, cut := p.limit()
	if n == p.told.Limit {
		return
	}
	p.told = State{Limit: n, Cut: cut && (p.told.Limit == 0 || n < p.told.Limit), Lowest: p.lowest == 0 || n < p.lowest}
	if p.told.Lowest {
		p.lowest = n
	}
	p.tell(p.told)
}
