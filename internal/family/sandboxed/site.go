package sandboxed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"securebench/internal/family"
	"securebench/internal/sandbox"
)

// unbounded is the output limit of a whole box, in bytes: its commands have their own.
const unbounded = 1 << 40

// Site is what one verification has on the engine. It is safe for concurrent use.
type Site struct {
	Engine sandbox.Sandboxes
	Labels sandbox.Labels // without a role
	Limits sandbox.Limits // of a row's command, with the defaults

	mu       sync.Mutex
	closers  []closer // in the order in which they were made
	ownRoots bool     // a box can write its whole root
}

// closer is a box or a workspace.
type closer interface {
	Close(ctx context.Context) error
}

// NewSite makes the site of a case, with nothing on the engine yet. The caller closes it.
func NewSite(r family.Resources, c family.Case) *Site {
	return &Site{Engine: r.Engine, Labels: sandbox.Labels{Run: r.RunID, Task: c.Sandbox.ID(), Attempt: c.Attempt}, Limits: c.Limits.WithDefaults()}
}

// keep notes what has to be removed.
func (s *Site) keep(c closer, ownRoot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closers, s.ownRoots = append(s.closers, c), s.ownRoots || ownRoot
}

// Keep has a sandbox that the caller made removed with the others.
func (s *Site) Keep(c interface {
	Close(ctx context.Context) error
}) {
	s.keep(c, false)
}

// Defer has something done when the verification is over and its sandboxes are gone.
func (s *Site) Defer(do func()) { s.keep(after(do), false) }

type after func()

func (do after) Close(context.Context) error {
	do()
	return nil
}

// Space makes a workspace, as a folder of an image has it or empty.
func (s *Site) Space(ctx context.Context, role string, owner sandbox.User, from *sandbox.ImageFolder) (sandbox.Workspace, error) {
	labels := s.Labels
	labels.Role = role
	w, err := s.Engine.Workspace(ctx, sandbox.WorkspaceSpec{Labels: labels, Owner: owner, Disk: s.Limits.Disk, Inodes: s.Limits.Files, From: from})
	if err != nil {
		return nil, fmt.Errorf("making the %s of a verification: %w", role, err)
	}
	s.keep(w, false)
	return w, nil
}

// Open makes a box that may run for a time, and starts its init.
func (s *Site) Open(ctx context.Context, role string, life time.Duration, spec sandbox.Spec) (*Box, error) {
	b, err := openBox(ctx, s.Engine, s.spec(role, life, spec))
	if err != nil {
		return nil, err
	}
	s.keep(b, spec.WritableRoot)
	return b, nil
}

// spec adds to the specification of a box what all have in common.
func (s *Site) spec(role string, life time.Duration, spec sandbox.Spec) sandbox.Spec {
	spec.Labels, spec.Limits = s.Labels, s.Limits
	spec.Labels.Role = role
	spec.Limits.Output, spec.Limits.Timeout = unbounded, life
	return spec
}

// Full reports whether a workspace is known to have no room left.
func Full(ctx context.Context, w sandbox.Workspace) bool {
	u, err := w.Usage(ctx)
	return err == nil && u.Full()
}

// writable reports whether a box could write its whole root.
func (s *Site) writable() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownRoots
}

// Close removes everything, what was made last first: a box before the workspaces that
// it mounts and the box whose network it shares.
func (s *Site) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c.Close(ctx))
	}
	s.closers = nil
	return errors.Join(errs...)
}
