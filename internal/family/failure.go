package family

import (
	"errors"
	"fmt"

	"securebench/internal/candidate"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// Failure is an error that is a verdict: it says why a candidate has not
// passed, in securebench's own words.
type Failure struct {
	Reason  verdict.Reason // "" is tampering, which has none
	Message string
}

// Fail returns a failure with a formatted message.
func Fail(r verdict.Reason, format string, args ...any) *Failure {
	return &Failure{r, fmt.Sprintf(format, args...)}
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Outcome is the class of the failure's reason.
func (f *Failure) Outcome() verdict.Outcome {
	switch f.Reason {
	case "":
		return verdict.Tampering
	case verdict.VerificationTimeout:
		return verdict.VerifierTimeout
	case verdict.OutOfMemory, verdict.PidsLimit, verdict.DiskLimit, verdict.OutputLimit, verdict.CandidateTooLarge:
		return verdict.Limit
	case verdict.NoVerifier, verdict.PackFault:
		return verdict.Pending
	}
	return verdict.Failed
}

// VerdictOf returns the verdict of a failure, or a pass if f is nil.
func VerdictOf(f *Failure) Verdict {
	if f == nil {
		return Verdict{Outcome: verdict.Passed}
	}
	return Verdict{Outcome: f.Outcome(), Reason: f.Reason, Message: f.Message}
}

// Blame turns an error into a failure if it is the candidate's fault, which a
// [candidate.Rejection] is, or the row's or image's, which those in rows are. Any
// other error stays what it is.
func Blame(err error, rows ...error) error {
	if rejection, ok := errors.AsType[*candidate.Rejection](err); ok {
		return &Failure{rejection.Reason, rejection.Message}
	}
	for _, fault := range rows {
		if errors.Is(err, fault) {
			return Fail(verdict.PackFault, "%v", err)
		}
	}
	return err
}

// LimitReached returns the failure of the first of the limits that something
// in a sandbox ran into, or nil if there was none; see [sandbox.Outcome.Limits].
func LimitReached(limits []sandbox.End, who string) *Failure {
	if len(limits) == 0 {
		return nil
	}
	switch limits[0] {
	case sandbox.OutOfMemory:
		return Fail(verdict.OutOfMemory, "%s ran out of memory", who)
	case sandbox.PidsLimit:
		return Fail(verdict.PidsLimit, "%s reached its limit of processes", who)
	case sandbox.DiskLimit:
		return Fail(verdict.DiskLimit, "%s reached its limit of disk space", who)
	case sandbox.OutputLimit:
		return Fail(verdict.OutputLimit, "%s wrote more than its limit of output", who)
	case sandbox.TimedOut:
		return Fail(verdict.VerificationTimeout, "%s ran out of time", who)
	}
	return nil
}
