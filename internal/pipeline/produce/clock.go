package produce

import (
	"sync"
	"time"
)

// clock is the clock of a production. It stands still while it is held, up to a
// bound on all holds together, and calls expire once when its time is up.
type clock struct {
	expire func()

	mu    sync.Mutex
	left  time.Duration // to run
	still time.Duration // that it may stand still
	since time.Time     // of the change to running or standing
	timer *time.Timer   // nil when it has stopped for good
	held  bool
}

// startClock starts a clock.
func startClock(limit, hold time.Duration, expire func()) *clock {
	c := &clock{expire: expire, left: limit, still: hold, since: time.Now()}
	c.timer = time.AfterFunc(limit, expire)
	return c
}

// hold stops the clock until resume, or until it has stood still for as long as
// it may.
func (c *clock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held || c.timer == nil || c.still <= 0 || !c.timer.Stop() {
		return
	}
	c.left -= time.Since(c.since)
	c.held, c.since = true, time.Now()
	c.timer = time.AfterFunc(c.still, c.resume)
}

// resume lets a held clock go on.
func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held || c.timer == nil {
		return
	}
	c.timer.Stop()
	c.still -= time.Since(c.since)
	c.held, c.since = false, time.Now()
	c.timer = time.AfterFunc(c.left, c.expire)
}

// stop stops the clock for good.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
