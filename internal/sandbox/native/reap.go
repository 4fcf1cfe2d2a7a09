package native

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"securebench/internal/attended"
	"securebench/internal/sandbox/native/process"
	"securebench/internal/sandbox/owner"
)

// topGroup is the name of the group that holds those of all engines.
const topGroup = "securebench"

// cleanupTimeout bounds what ends or removes a box, also after an interrupt.
const cleanupTimeout = 30 * time.Second

// cleanup is a context for clean-up, whether or not ctx has ended.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return attended.WithTimeoutCause(context.WithoutCancel(ctx), cleanupTimeout, errors.New("the kernel takes too long"))
}

// newName returns a name that no box or engine ever had.
func newName() string { return strings.ToLower(rand.Text()[:16]) }

// groupOf returns the name of an engine's group. It carries its owner; a process
// can have several engines.
func groupOf(o owner.Owner) string {
	return topGroup + "/" + strings.ReplaceAll(o.String(), "/", ".") + "." + newName()
}

// ownerOf is the inverse of groupOf for a name below the top group.
func ownerOf(name string) (owner.Owner, bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return owner.Owner{}, false
	}
	return owner.Parse(strings.ReplaceAll(name[:i], ".", "/"))
}

// Reap implements [sandbox.Service]: it ends the sandboxes of processes that have
// ended, whose mounts go with them, and removes what these had in the stores.
func (e *Engine) Reap(ctx context.Context) (int, error) {
	// What a runtime is making comes to its group, which is removed then.
	runtimesErr := e.killRuntimes(ctx)
	n, err := e.reapGroups(ctx)
	images, imagesErr := e.store.Reap(ctx)
	trees, treesErr := e.reapOverlays()
	n += images + trees
	if err := errors.Join(runtimesErr, err, imagesErr, treesErr); err != nil {
		return n, fmt.Errorf("removing what dead processes left: %w", err)
	}
	return n, nil
}

// runtimesTimeout bounds the wait for runtimes that were killed, which end at once: a run
// must not wait for what calls itself like one and comes back.
const runtimesTimeout = 5 * time.Second

// killRuntimes kills runtimes of processes that have ended: a part of crun outlives the
// process that has started it.
func (e *Engine) killRuntimes(ctx context.Context) error {
	ctx, cancel := attended.WithTimeoutCause(ctx, runtimesTimeout, errors.New("they do not end"))
	defer cancel()
	err := process.Kill(ctx, func(arguments []string) bool {
		id, ok := e.runtime.Called(arguments)
		_, engine, found := strings.Cut(id, idSeparator)
		o, owned := ownerOf(engine)
		return ok && found && owned && o.Dead(e.owner)
	})
	if err != nil {
		return fmt.Errorf("ending the runtimes that dead processes had started: %w", err)
	}
	return nil
}

func (e *Engine) reapGroups(ctx context.Context) (n int, err error) {
	names, err := e.cgroups.List(topGroup)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		o, ok := ownerOf(name)
		if !ok || !o.Dead(e.owner) {
			continue
		}
		name = topGroup + "/" + name
		boxes, listErr := e.cgroups.List(name)
		group := e.cgroups.Group(name)
		failed := errors.Join(listErr, group.Kill(ctx))
		if failed == nil {
			failed = group.Remove(ctx)
		}
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		n += len(boxes)
		e.log.Info("sandboxes of a dead process removed", slog.Int("count", len(boxes)), slog.Int("pid", o.PID))
	}
	return n, err
}

// Owned lists the boxes of this engine that have a control group. After a run it
// is empty.
func (e *Engine) Owned(context.Context) ([]string, error) { return e.cgroups.List(e.groups) }
