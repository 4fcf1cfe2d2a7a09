package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"securebench/internal/family"
	"securebench/internal/sandbox/link"
	"securebench/internal/verdict"
)

var (
	// errDeadline is the cause of a context whose row has run out of time.
	errDeadline = errors.New("the row's time is over")
	// errSlow is the cause of a wait for the engine that took too long.
	errSlow = errors.New("the engine takes too long")
)

const (
	// startLimit bounds a wait for sandboxes. Beyond it the engine is at fault.
	startLimit = 2 * time.Minute
	// settle is how long to wait for the end of a box whose stream has ended.
	settle = 2 * time.Second
)

// fault is a failure of the test box while a candidate's value was in play. It
// counts against the candidate only when it happens again.
type fault struct{ *family.Failure }

// infrastructure turns the failure of a row into an error of this process: no
// value of a candidate was in play.
func infrastructure(err error) error {
	var f *family.Failure
	var o *fault
	if errors.As(err, &f) || errors.As(err, &o) {
		return errors.New(err.Error())
	}
	return err
}

// isFailure reports whether an error is about what ran in a box, rather than
// about the engine or this process.
func isFailure(err error) bool {
	var f *family.Failure
	return errors.As(err, &f)
}

func violation(what string) *family.Failure {
	return family.Fail(verdict.ProtocolViolation, "the candidate broke the protocol: %s", what)
}

func timeout(d time.Duration) *family.Failure {
	return family.Fail(verdict.VerificationTimeout, "the candidate ran longer than the row's %v", d)
}

// candidateEnded says why the candidate box ended. That is the candidate's
// failure, unless the engine reports that it was its own.
func candidateEnded(ctx context.Context, l *link.Link) error {
	o, ended, err := l.End(ctx, settle)
	if err != nil {
		return fmt.Errorf("running the candidate: %w", err)
	}
	if f := family.LimitReached(o.Limits(), "the candidate"); ended && f != nil {
		return f
	}
	return family.Fail(verdict.WorkerExited, "the candidate's process ended before it had answered")
}
