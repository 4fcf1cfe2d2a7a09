package sandboxtest

import (
	"context"
	"errors"
	"sync"

	"securebench/internal/sandbox"
)

var _ sandbox.Freezer = (*box)(nil)

// gate holds up those who pass through it while it is closed.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when the gate is opened; nil while it is open
}

func (g *gate) wait(ctx context.Context) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		select {
		case <-shut:
		case <-ctx.Done():
		}
	}
}

// Freeze holds up the standard streams of the box: a function cannot be stopped.
func (b *box) Freeze(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !b.ran.Load() {
		return errors.New("freezing a sandbox: it does not run yet")
	}
	b.gate.mu.Lock()
	defer b.gate.mu.Unlock()
	if b.gate.shut == nil && !b.ended.Load() {
		b.gate.shut = make(chan struct{})
	}
	return nil
}

// Thaw implements [sandbox.Freezer].
func (b *box) Thaw(context.Context) error {
	b.gate.mu.Lock()
	defer b.gate.mu.Unlock()
	if b.gate.shut != nil {
		close(b.gate.shut)
		b.gate.shut = nil
	}
	return nil
}
