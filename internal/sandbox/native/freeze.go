package native

import (
	"context"
	"errors"
	"fmt"
	"time"

	"securebench/internal/attended"
	"securebench/internal/sandbox/native/process"
)

// freezeTimeout bounds the wait for processes to stop.
const freezeTimeout = 30 * time.Second

// errEnds is the cause of a freeze that gives way to the end of the box.
var errEnds = errors.New("the sandbox ends")

// Freeze implements [sandbox.Freezer]. A box that has ended is left as it is.
func (b *box) Freeze(ctx context.Context) error {
	b.freezing.Lock()
	defer b.freezing.Unlock()
	p, err := b.started()
	if err != nil {
		return fmt.Errorf("freezing a sandbox: %w", err)
	}
	if b.frozen || b.dying || p.Ended() {
		return nil
	}
	ctx, cancel := attended.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	stop := context.AfterFunc(b.ending, func() { give(errEnds) })
	defer stop()
	if err := b.group.Freeze(ctx); err != nil && b.ending.Err() == nil && !p.Ended() {
		return fmt.Errorf("freezing a sandbox: %w", err)
	}
	b.frozen = !p.Ended()
	return nil
}

// Thaw implements [sandbox.Freezer].
func (b *box) Thaw(ctx context.Context) error {
	b.freezing.Lock()
	defer b.freezing.Unlock()
	if err := b.thaw(ctx); err != nil {
		return fmt.Errorf("resuming a sandbox: %w", err)
	}
	return nil
}

// thaw needs the lock.
func (b *box) thaw(ctx context.Context) error {
	if !b.frozen {
		return nil
	}
	p, err := b.started()
	if err != nil {
		return err
	}
	ctx, cancel := attended.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	if err := b.group.Thaw(ctx); err != nil && !p.Ended() {
		return err
	}
	b.frozen = false
	return nil
}

// started returns the first process.
func (b *box) started() (*process.Process, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil {
		return nil, errors.New("it does not run yet")
	}
	return b.process, nil
}

// thawForKill ends a freeze, the one that is on the way and those that come:
// frozen processes don't die.
func (b *box) thawForKill(ctx context.Context) error {
	b.endNow()
	b.freezing.Lock()
	defer b.freezing.Unlock()
	b.dying = true
	return b.thaw(ctx)
}
