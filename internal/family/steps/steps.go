// Package steps is the sandbox in which a verification takes its steps, one command
// after the other, and what the end of that sandbox says about the candidate.
package steps

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// Box is a sandbox whose first process is securebench's init: no command can reach
// that.
type Box struct {
	*sandbox.Watched
	Client *initproc.Client // nil after [Box.End]
}

// Open makes a box and starts its init.
func Open(ctx context.Context, e sandbox.Sandboxes, spec sandbox.Spec) (*Box, error) {
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
// into. An error means that the engine, or somebody outside, ended it. Of no box, or
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

// Settle judges the error of a verification's steps by that of [Box.End]. A box that
// is lost while it holds something of the candidate's, which live says, is the
// candidate's failure, unless it was disturbed from outside.
func Settle(err, endErr error, live bool) error {
	lost := live && errors.Is(endErr, initproc.ErrLost) && !errors.Is(endErr, sandbox.ErrDisturbed)
	switch {
	case endErr != nil && !lost:
		return endErr
	case live && errors.Is(err, initproc.ErrLost), lost && err == nil:
		return family.Fail(verdict.WorkerExited, "the sandbox ended while the candidate was in it")
	}
	return err
}
