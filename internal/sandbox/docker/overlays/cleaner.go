package overlays

import (
	"context"

	"securebench/internal/sandbox"
)

// Cleaner implements [sandbox.Cleaner] for an engine: what dead processes left on
// it, overlays among them that they did not fill.
type Cleaner struct{ Store *Store }

// Left lists it.
func (c Cleaner) Left(ctx context.Context) ([]sandbox.Leftover, error) {
	left, err := c.Store.conn.Left(ctx)
	if err != nil {
		return nil, err
	}
	torn, err := c.Store.Left(ctx)
	return append(left, torn...), err
}

// RemoveLeft removes one.
func (c Cleaner) RemoveLeft(ctx context.Context, l sandbox.Leftover) error {
	if l.Kind == kindTorn {
		return c.Store.RemoveTorn(ctx, l.Name)
	}
	return c.Store.conn.RemoveLeft(ctx, l)
}
