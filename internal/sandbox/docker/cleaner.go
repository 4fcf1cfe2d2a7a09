package docker

import (
	"context"

	"securebench/internal/sandbox"
)

// Left implements [sandbox.Cleaner]: what dead processes left, overlays among it
// that they did not fill.
func (e *Engine) Left(ctx context.Context) ([]sandbox.Leftover, error) {
	left, err := e.conn.Left(ctx)
	if err != nil {
		return nil, err
	}
	torn, err := e.overlays.Left(ctx)
	return append(left, torn...), err
}

// RemoveLeft implements [sandbox.Cleaner].
func (e *Engine) RemoveLeft(ctx context.Context, l sandbox.Leftover) error {
	if l.Kind == kindTorn {
		return e.overlays.removeTorn(ctx, l.Name)
	}
	return e.conn.RemoveLeft(ctx, l)
}
