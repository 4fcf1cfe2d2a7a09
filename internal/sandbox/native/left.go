package native

import (
	"context"
	"fmt"

	"securebench/internal/sandbox"
)

// kindBoxes is the kind of what [Engine.Left] lists.
const kindBoxes = "sandboxes of a process"

var _ sandbox.Cleaner = (*Engine)(nil)

// Left implements [sandbox.Cleaner]: the control groups of processes that have
// ended. All else that these had on the machine ends with the groups.
func (e *Engine) Left(context.Context) (left []sandbox.Leftover, err error) {
	names, err := e.cgroups.List(topGroup)
	if err != nil {
		return nil, fmt.Errorf("listing what dead processes left: %w", err)
	}
	for _, name := range names {
		if o, ok := ownerOf(name); ok && o.Dead(e.owner) {
			left = append(left, sandbox.Leftover{Kind: kindBoxes, Name: name})
		}
	}
	return left, nil
}

// RemoveLeft implements [sandbox.Cleaner].
func (e *Engine) RemoveLeft(ctx context.Context, l sandbox.Leftover) error {
	if o, ok := ownerOf(l.Name); l.Kind != kindBoxes || !ok || !o.Dead(e.owner) {
		return fmt.Errorf("%s %q is not what a dead process left", l.Kind, l.Name)
	}
	group := e.cgroups.Group(topGroup + "/" + l.Name)
	if err := group.Kill(ctx); err != nil {
		return fmt.Errorf("ending the sandboxes of a dead process: %w", err)
	}
	return group.Remove(ctx)
}
