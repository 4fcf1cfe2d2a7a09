package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
)

// freezing is what this process did to freeze a box. Pauses by others are
// disturbances.
type freezing struct {
	mu      sync.Mutex
	frozen  bool
	pauses  int // calls that can have had an effect
	resumes int
}

// Freeze implements [sandbox.Freezer]. A box that has ended is left as it is.
func (b *box) Freeze(ctx context.Context) error {
	f := &b.freezing
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen {
		return nil
	}
	if !b.ran.Load() {
		return errors.New("freezing a sandbox: it does not run yet")
	}
	cctx, cancel := attended.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	defer cancel()
	var err error
	for try := 1; ; try++ {
		if err = b.pause(cctx); err == nil {
			f.frozen = true
			return nil
		}
		if b.over(cctx, err) {
			return nil
		}
		if try == pauseTries || cctx.Err() != nil || cerrdefs.IsConflict(err) {
			return fmt.Errorf("freezing a sandbox: %w", err)
		}
		_ = attended.Pause(cctx, time.Duration(try)*pauseAgain) // ended early, it is tried once more
	}
}

// A runtime can fail to stop processes that begin others all the time, or that a
// busy machine keeps from being stopped; it lets them go on then. With cgroup v1
// that also happens to honest agents.
const (
	pauseTries = 5
	pauseAgain = 100 * time.Millisecond
)

// pause asks the engine once. freezing is locked.
func (b *box) pause(ctx context.Context) error {
	b.freezing.pauses++
	_, err := b.engine.conn.API.ContainerPause(ctx, b.name, client.ContainerPauseOptions{})
	if err != nil && ctx.Err() == nil {
		b.freezing.pauses-- // the engine says that nothing has changed
	}
	return err
}

// Thaw implements [sandbox.Freezer].
func (b *box) Thaw(ctx context.Context) error {
	f := &b.freezing
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.frozen {
		return nil
	}
	cctx, cancel := attended.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	defer cancel()
	f.resumes++
	_, err := b.engine.conn.API.ContainerUnpause(cctx, b.name, client.ContainerUnpauseOptions{})
	if err == nil || b.over(cctx, err) {
		f.frozen = false
		return nil
	}
	return fmt.Errorf("resuming a sandbox: %w", err)
}

// over reports whether a call failed because the container has ended: there is
// nothing to be frozen then. An engine has one error for that and for a container
// that was paused from outside.
func (b *box) over(ctx context.Context, err error) bool {
	if b.closed.Load() || b.ended.Load() || cerrdefs.IsNotFound(err) {
		return true
	}
	if !cerrdefs.IsConflict(err) {
		return false
	}
	res, err := b.engine.conn.API.ContainerInspect(ctx, b.name, client.ContainerInspectOptions{})
	return err == nil && res.Container.State != nil && !res.Container.State.Running
}

// own returns how many events of pausing are this process's, and whether the box
// is frozen by it.
func (f *freezing) own() (events int, frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pauses + f.resumes, f.frozen
}

// disturbedPause returns the error of a box that is paused and not frozen.
func (b *box) disturbedPause(paused bool) error {
	if _, frozen := b.freezing.own(); paused && !frozen {
		return fmt.Errorf("%w: its container is paused", sandbox.ErrDisturbed)
	}
	return nil
}
