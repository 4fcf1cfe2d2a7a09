package sandbox

import "context"

// Watched is a box that remembers how it ended, for those who run it through a
// client of its init: when that is closed, the end is known.
type Watched struct {
	Box
	Outcome Outcome
	Err     error
}

// Run runs the box.
func (w *Watched) Run(ctx context.Context, s Streams) (Outcome, error) {
	w.Outcome, w.Err = w.Box.Run(ctx, s)
	return w.Outcome, w.Err
}
