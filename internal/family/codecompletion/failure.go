package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// errDeadline is the cause of a context whose row has run out of time.
var errDeadline = errors.New("the row's time is over")

// failure is a row that has not passed, in the framework's own words.
type failure struct {
	reason  verdict.Reason
	message string
}

// Error returns the message.
func (f *failure) Error() string { return f.message }

// fault is a failure of the oracle while a candidate's value was in play. It
// counts against the candidate only when it happens again.
type fault struct{ failure }

// ours turns the failure of a row into an error of this process: nothing of a
// candidate was in play.
func ours(err error) error {
	var f *failure
	var o *fault
	if errors.As(err, &f) || errors.As(err, &o) {
		return errors.New(err.Error())
	}
	return err
}

// isFailure reports whether an error is about what ran in a box, and not the
// engine's or this process's.
func isFailure(err error) bool {
	var f *failure
	return errors.As(err, &f)
}

func violation(what string) *failure {
	return &failure{verdict.ProtocolViolation, "the worker broke the protocol: " + what}
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

// limitOf is the limit that explains a failure: the one that ended a box, or
// one that was run into in it; nil if there was none.
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

// died says why the worker went away. A death is the candidate's failure,
// unless the engine reports that it was its own.
func died(ctx context.Context, l *link) error {
	o, ended, err := l.end(context.WithoutCancel(ctx), settle)
	if err != nil {
		return fmt.Errorf("running the worker: %w", err)
	}
	if f := limitOf(o, "the candidate"); ended && f != nil {
		return f
	}
	return &failure{verdict.WorkerExited, "the candidate's process ended before it had answered"}
}
