package produce

import (
	"sync"
	"time"

	"securebench/internal/attended"
)

// clock is the clock of a production. It does not run while it is held, up to a
// bound on all holds together, and calls expire once when its time is up.
type clock struct {
	expire func()

	mu    sync.Mutex
	left  time.Duration   // to run, while it is held or when it has stopped
	still time.Duration   // that it may stand still
	timer *attended.Timer // nil when it has stopped for good
	held  bool
}

// startClock starts a clock.
func startClock(limit, hold time.Duration, expire func()) *clock {
	return &clock{expire: expire, still: hold, timer: attended.AfterFunc(limit, expire)}
}

// hold stops the clock until resume, or until it has stood still for as long as
// it may.
func (c *clock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held || c.timer == nil || c.still <= 0 || !c.timer.Stop() {
		return
	}
	c.left, c.held = c.timer.Left(), true
	c.timer = attended.AfterFunc(c.still, c.resume)
}

// resume lets a held clock go on.
func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held || c.timer == nil {
		return
	}
	c.timer.Stop()
	c.still, c.held = c.timer.Left(), false
	c.timer = attended.AfterFunc(c.left, c.expire)
}

// stop stops the clock for good.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		return
	}
	c.timer.Stop()
	if !c.held {
		c.left = c.timer.Left()
	}
	c.timer = nil
}

// remaining returns the time that was left when the clock stopped.
func (c *clock) remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}
