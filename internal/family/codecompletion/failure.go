package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"securebench/internal/sandbox"
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

// failure says why a row has not passed, in securebench's own words.
type failure struct {
	reason  verdict.Reason
	message string
}

// Error returns the message.
func (f *failure) Error() string { return f.message }

// fault is a failure of the test box while a candidate's value was in play. It
// counts against the candidate only when it happens again.
type fault struct{ failure }

// infrastructure turns the failure of a row into an error of this process: no
// value of a candidate was in play.
func infrastructure(err error) error {
	var f *failure
	var o *fault
	if errors.As(err, &f) || errors.As(err, &o) {
		return errors.New(err.Error())
	}
	return err
}

// isFailure reports whether an error is about what ran in a box, rather than
// about the engine or this process.
func isFailure(err error) bool {
	var f *failure
	return errors.As(err, &f)
}

func violation(what string) *failure {
	return &failure{verdict.ProtocolViolation, "the candidate broke the protocol: " + what}
}

func timeout(d time.Duration) *failure {
	return &failure{verdict.VerificationTimeout, fmt.Sprintf("the candidate ran longer than the row's %v", d)}
}

// outcomeOf is the class of a reason.
func outcomeOf(r verdict.Reason) verdict.Outcome {
	switch r {
	case "":
		return verdict.Passed
	case verdict.VerificationTimeout:
		return verdict.VerifierTimeout
	case verdict.OutOfMemory, verdict.PidsLimit, verdict.DiskLimit, verdict.OutputLimit:
		return verdict.Limit
	case verdict.NoVerifier, verdict.PackFault:
		return verdict.Pending
	}
	return verdict.Failed
}

// limitOf returns the limit that explains a failure: the one that ended a box,
// or one that a process in it ran into; nil if there was none.
func limitOf(o sandbox.Outcome, who string) *failure {
	limits := o.Limits()
	if len(limits) == 0 {
		return nil
	}
	switch limits[0] {
	case sandbox.OutOfMemory:
		return &failure{verdict.OutOfMemory, who + " ran out of memory"}
	case sandbox.PidsLimit:
		return &failure{verdict.PidsLimit, who + " reached its limit of processes"}
	case sandbox.DiskLimit:
		return &failure{verdict.DiskLimit, who + " reached its limit of disk space"}
	case sandbox.OutputLimit:
		return &failure{verdict.OutputLimit, who + " wrote more than its limit of output"}
	case sandbox.TimedOut:
		return &failure{verdict.VerificationTimeout, who + " ran out of time"}
	}
	return nil
}

// candidateEnded says why the candidate box ended. That is the candidate's
// failure, unless the engine reports that it was its own.
func candidateEnded(ctx context.Context, l *link.Link) error {
	o, ended, err := l.Outcome(context.WithoutCancel(ctx), settle)
	if err != nil {
		return fmt.Errorf("running the candidate: %w", err)
	}
	if f := limitOf(o, "the candidate"); ended && f != nil {
		return f
	}
	return &failure{verdict.WorkerExited, "the candidate's process ended before it had answered"}
}
