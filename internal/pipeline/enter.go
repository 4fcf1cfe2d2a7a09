package pipeline

import "context"

// enter waits until the machine has room for an attempt. It returns false if the
// run ends.
func (r *run) enter(ctx context.Context, a *ongoing) bool {
	if r.Plan == nil {
		return true
	}
	if reason, _ := a.unscored(); reason != "" {
		return true // nothing runs
	}
	var err error
	if a.stay, err = r.Plan.Enter(ctx, r.Load(a.draft.Task)); err != nil {
		r.cancel(err)
	}
	return err == nil
}
