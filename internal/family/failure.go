package family

import (
	"fmt"

	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// Failure is an error that is a verdict: it says why a candidate has not
// passed, in securebench's own words.
type Failure struct {
	Reason  verdict.Reason
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
	case verdict.VerificationTimeout:
		return verdict.VerifierTimeout
	case verdict.OutOfMemory, verdict.PidsLimit, verdict.DiskLimit, verdict.OutputLimit, verdict.CandidateTooLarge:
		return verdict.Limit
	case verdict.NoVerifier, verdict.PackFault:
		return verdict.Pending
	}
	return verdict.Failed
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
