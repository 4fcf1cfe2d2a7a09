package produce

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"

	"securebench/internal/agent/harness"
	"securebench/internal/piped"
	"securebench/internal/sandbox"
	"securebench/internal/workspace"
)

// ErrFolder is wrapped by the error of [Producer.Prepare] when the row asks for
// a workspace that its image cannot give. That is the pack's fault.
var ErrFolder = errors.New("the workspace cannot begin as the image's folder (environment.materialize_workdir_from_image)")

// begun describes how a workspace began. Workspaces that began alike hold the
// same files.
type begun struct {
	image, folder string
	owner         sandbox.User
	all           bool              // what belongs to other users was also read
	layout        [sha256.Size]byte // the archive laid over the folder
}

// makeSpaces makes the volumes of the sandbox side by side, because each takes
// the engine a while.
func (s *Session) makeSpaces(ctx context.Context, e sandbox.Engine, spec sandbox.Spec, layout, about *workspace.Layout) (begun, error) {
	w := sandbox.WorkspaceSpec{Labels: s.req.Labels, Owner: s.req.Image.User, Disk: spec.Limits.Disk, Inodes: spec.Limits.Files,
		ReadAll: len(spec.Capabilities) > 0} // with which owners can be changed
	if spec.User != nil {
		w.Owner = *spec.User
	}
	var how begun
	var errs [4]error
	var wg sync.WaitGroup
	wg.Go(func() { how, errs[0] = s.makeSpace(ctx, e, w, layout) })
	if s.req.Checkout != nil {
		wg.Go(func() { errs[1] = s.makeCheckout(ctx, e, w) })
	}
	if s.req.Files != nil {
		wg.Go(func() { errs[2] = s.makeSolution(ctx, e) })
	}
	if about != nil {
		wg.Go(func() { errs[3] = s.makeAbout(ctx, e, about) })
	}
	wg.Wait()
	return how, errors.Join(errs[:]...)
}

// makeSpace makes the workspace: the image's folder if the row asks for that,
// else an empty one, with the task's files over it.
func (s *Session) makeSpace(ctx context.Context, e sandbox.Engine, w sandbox.WorkspaceSpec, layout *workspace.Layout) (begun, error) {
	how := begun{owner: w.Owner, all: w.ReadAll}
	w.Labels.Role = "workspace"
	if s.req.View.Environment().MaterializeWorkdir {
		w.From = &sandbox.ImageFolder{Image: s.req.Image, Path: s.plan.Target}
		how.image, how.folder = s.req.Image.ID, s.plan.Target
	}
	space, err := e.Workspace(ctx, w)
	switch {
	case errors.Is(err, sandbox.ErrNoFolder), errors.Is(err, sandbox.ErrTooSmall):
		return how, fmt.Errorf("%w: %w", ErrFolder, err)
	case err != nil:
		return how, fmt.Errorf("creating the workspace: %w", err)
	}
	s.space = space
	if w.From != nil && !w.ReadAll {
		if err := readable(ctx, space, w); err != nil {
			return how, err
		}
	}
	how.layout, err = fill(ctx, space, layout, w.Owner)
	switch {
	case w.From != nil && errors.Is(err, sandbox.ErrTree):
		// Nothing of an agent's has run: the folder is as the image has it.
		return how, fmt.Errorf("%w: user %d:%d cannot put the task's files into %s: %w (set environment.user to the folder's owner, or build the image with a folder that the user may write to)",
			ErrFolder, w.Owner.UID, w.Owner.GID, w.From.Path, err)
	case err != nil:
		return how, fmt.Errorf("copying files into the workspace: %w", err)
	}
	return how, nil
}

// readable returns an error if the user of an agent cannot read the folder that its
// workspace begins as, which nothing of the agent's has touched: what the agent left
// there could not be taken.
func readable(ctx context.Context, space sandbox.Workspace, w sandbox.WorkspaceSpec) error {
	u, err := space.Usage(ctx)
	if err != nil && !errors.Is(err, sandbox.ErrTree) {
		return fmt.Errorf("looking at the workspace: %w", err)
	}
	const readEnter = 0o5
	perm := u.Mode.Perm()
	switch {
	case w.Owner.UID == u.Root.UID:
		perm >>= 6
	case w.Owner.GID == u.Root.GID:
		perm >>= 3
	}
	if err == nil && perm&readEnter == readEnter {
		return nil
	}
	return fmt.Errorf("%w: user %d:%d cannot read %s (set environment.user to the folder's owner, or build the image with a folder that the user may read and enter)",
		ErrFolder, w.Owner.UID, w.Owner.GID, w.From.Path)
}

func (s *Session) makeCheckout(ctx context.Context, e sandbox.Engine, w sandbox.WorkspaceSpec) error {
	w.Labels.Role, w.From, w.ReadAll = "checkout", s.req.Checkout, false
	space, err := e.Workspace(ctx, w)
	switch {
	case errors.Is(err, sandbox.ErrNoFolder), errors.Is(err, sandbox.ErrTooSmall):
		return fmt.Errorf("%w: creating the checkout: %w", sandbox.ErrUnusable, err)
	case err != nil:
		return fmt.Errorf("creating the checkout: %w", err)
	}
	s.checkout = space
	return nil
}

// makeSolution makes the volume with the files of the request's command. They
// belong to root, and a file takes at most eight times as much room there as in
// the archive.
func (s *Session) makeSolution(ctx context.Context, e sandbox.Engine) error {
	w := sandbox.WorkspaceSpec{Labels: s.req.Labels, Disk: 1<<20 + 8*int64(len(s.req.Files))}
	w.Labels.Role = "solution"
	space, err := e.Workspace(ctx, w)
	if err != nil {
		return fmt.Errorf("creating the solution's volume: %w", err)
	}
	s.solution = space
	if err := space.Put(ctx, bytes.NewReader(s.req.Files)); err != nil {
		return fmt.Errorf("copying the solution's files: %w", err)
	}
	return nil
}

// makeAbout makes the volume with what is said of the task, which belongs to root.
func (s *Session) makeAbout(ctx context.Context, e sandbox.Engine, about *workspace.Layout) error {
	w := sandbox.WorkspaceSpec{Labels: s.req.Labels, Disk: 1 << 20}
	w.Labels.Role = "task"
	for _, f := range about.Entries {
		w.Disk += 2 * int64(len(f.Data))
	}
	space, err := e.Workspace(ctx, w)
	if err != nil {
		return fmt.Errorf("creating the volume of the task's files: %w", err)
	}
	s.about = space
	if _, err = fill(ctx, space, about, sandbox.User{}); err != nil {
		return fmt.Errorf("copying the task's files: %w", err)
	}
	return nil
}

// mounts lists where the volumes are mounted, the workspace first.
func (s *Session) mounts() []sandbox.Mount {
	out := []sandbox.Mount{{Workspace: s.space, Target: s.plan.Target}}
	if s.checkout != nil {
		out = append(out, sandbox.Mount{Workspace: s.checkout, Target: s.plan.Checkout})
	}
	if s.about != nil {
		out = append(out, sandbox.Mount{Workspace: s.about, Target: s.plan.TaskDir, ReadOnly: true})
	}
	if s.solution != nil {
		out = append(out, sandbox.Mount{Workspace: s.solution, Target: harness.ProgramDir, ReadOnly: true})
	}
	return out
}

// fill streams the layout into the workspace without writing to the host's
// disk, and returns the digest of the stream.
func fill(ctx context.Context, space sandbox.Workspace, layout *workspace.Layout, owner sandbox.User) (sum [sha256.Size]byte, err error) {
	all := sha256.New()
	err = piped.Run(func(w io.Writer) error { return layout.WriteTar(io.MultiWriter(w, all), owner.UID, owner.GID) },
		func(r io.Reader) error { return space.Put(ctx, r) })
	return [sha256.Size]byte(all.Sum(nil)), err
}
