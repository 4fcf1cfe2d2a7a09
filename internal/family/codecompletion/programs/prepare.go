package programs

import (
	"context"
	"fmt"

	"securebench/internal/family"
	"securebench/internal/sandbox"
)

// Pending is a box that is made in the background.
type Pending struct {
	cancel context.CancelFunc
	done   chan struct{}
	box    *Box
	err    error
}

// Prepare begins to make a box for a case. The caller closes it, even if it never
// becomes ready.
func Prepare(ctx context.Context, e sandbox.Sandboxes, run string, c family.Case, o Options) *Pending {
	p := &Pending{done: make(chan struct{})}
	ctx, p.cancel = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		p.box, p.err = Start(ctx, e, run, c, o)
	}()
	return p
}

// Wait returns the box once it is ready.
func (p *Pending) Wait(ctx context.Context) (*Box, error) {
	select {
	case <-p.done:
		return p.box, p.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the sandbox: %w", context.Cause(ctx))
	}
}

// Close removes the box.
func (p *Pending) Close(ctx context.Context) error {
	p.cancel()
	<-p.done
	return p.box.Close(ctx)
}
