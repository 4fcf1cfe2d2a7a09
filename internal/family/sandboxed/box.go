package sandboxed

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// Box is a sandbox in which a verification runs one command after the other. Its first
// process is securebench's init: no command can reach that.
type Box struct {
	*sandbox.Watched
	Client *initproc.Client // nil after [Box.End]
}

// openBox makes a box and starts its init.
func openBox(ctx context.Context, e sandbox.Sandboxes, spec sandbox.Spec) (*Box, error) {
	spec.User, spec.Init = &sandbox.User{}, true // root, because init switches users
	made, err := e.Open(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("making the sandbox of the %s: %w", spec.Labels.Role, err)
	}
	b := &Box{Watched: &sandbox.Watched{Box: made}}
	if b.Client, err = initproc.Open(ctx, b.Watched); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the sandbox of the %s: %w", spec.Labels.Role, err), made.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// End ends every process of a box and returns the limits that any of them ran
// into. An error means that the engine, or a process outside, ended it. Of no box, or
// one that has ended, there is nothing to say.
func (b *Box) End(ctx context.Context) ([]sandbox.End, error) {
	if b == nil || b.Client == nil {
		return nil, nil
	}
	err := b.Client.Close(ctx)
	if b.Client = nil; b.Err != nil {
		err = errors.Join(b.Err, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ending a sandbox of the verification: %w", err)
	}
	return b.Outcome.Limits(), nil
}

// Close removes a box, if there is one.
func (b *Box) Close(ctx context.Context) error {
	if b == nil {
		return nil
	}
	var errs []error
	if b.Client != nil {
		errs = append(errs, b.Client.Close(ctx))
		b.Client = nil
	}
	return errors.Join(append(errs, b.Box.Close(ctx))...)
}

// Settle judges the error of a verification's steps by what [Box.End] returned. A box
// whose init is lost says nothing of the candidate, even if it holds something of the
// candidate's, which live says: then it counts if that ran into a limit.
func Settle(err error, limits []sandbox.End, endErr error, live bool) error {
	if endErr != nil && !errors.Is(endErr, initproc.ErrLost) || errors.Is(endErr, sandbox.ErrDisturbed) {
		return endErr
	}
	if err == nil {
		err = endErr
	}
	if !live || !errors.Is(err, initproc.ErrLost) {
		return err
	}
	if limit := family.LimitReached(limits, "the candidate"); limit != nil {
		return limit
	}
	return fmt.Errorf("contact with a sandbox of the verification was lost while it held the candidate: %w", err)
}
