package attempt

import (
	"errors"
	"slices"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/judge"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// Class says what follows from a failed call.
type Class string

// The classes.
const (
	// Infrastructure is any failure that is not known to be of another class: the call
	// is repeated.
	Infrastructure Class = ""
	// PackFault means that the pack is to blame: its files have changed since it was
	// loaded, or what a row needs of its image cannot be used.
	PackFault Class = "pack_fault"
	// Rejected means that the provider refuses the configuration, or that another model
	// answers for the judge, so no other attempt can succeed.
	Rejected Class = "rejected"
	// Spent means that the run has used its budget: the attempt has no record, and no
	// other begins.
	Spent Class = "spent"
	// Final means that a repetition would fail in the same way, or is not worth it: an
	// attempt that has waited for its provider as long as it may waits no longer, and
	// an answer that cannot be read is asked for once.
	Final Class = "final"
)

// ClassOf returns the class of an error: its own if it is an [*Error], otherwise what
// it wraps decides.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	switch {
	case errors.Is(err, workspace.ErrChanged), agent.Unusable(err):
		return PackFault
	case errors.Is(err, produce.ErrRejected), errors.Is(err, judge.ErrChanged):
		return Rejected
	case errors.Is(err, produce.ErrSpent):
		return Spent
	case errors.Is(err, produce.ErrWaited), errors.Is(err, agent.ErrForm):
		return Final
	}
	return Infrastructure
}

// Cause is something that an error wraps and that others look for with [errors.Is].
type Cause string

// The causes.
const (
	Damaged   Cause = "damaged"   // candidate.ErrDamaged: the stored candidate is
	Output    Cause = "output"    // record.ErrOutput: the output directory cannot be written
	Integrity Cause = "integrity" // record.ErrIntegrity: the output directory was changed
)

// is returns the error of a cause.
func (c Cause) is() error {
	return map[Cause]error{Damaged: candidate.ErrDamaged, Output: record.ErrOutput, Integrity: record.ErrIntegrity}[c]
}

// causesOf returns the causes of an error.
func causesOf(err error) (out []Cause) {
	for _, c := range []Cause{Damaged, Output, Integrity} {
		if errors.Is(err, c.is()) {
			out = append(out, c)
		}
	}
	return out
}

// Error is why a call of a [Worker] failed, and what the try cost. It can be encoded.
type Error struct {
	Message string `json:"message"`
	Class   Class  `json:"class,omitzero"`
	// Causes are what it wraps, also in another process.
	Causes []Cause       `json:"causes,omitzero"`
	Phase  verdict.Phase `json:"phase"`
	// Stands says that the agent has ended, and that what it left can still be
	// taken.
	Stands bool `json:"stands,omitzero"`
	// Usage and Raw are as in [Produced]. If the agent stands, the next call reports
	// them again.
	Usage map[string]int64  `json:"usage,omitzero"`
	Raw   map[string][]byte `json:"raw,omitzero"`
	Took  Timings           `json:"took_ms,omitzero"`

	cause error // in this process
}

// Failed returns the error of a call that failed in a phase. Its message is escaped: it
// may repeat what an engine or an agent said, in bytes that no encoding has.
func Failed(cause error, phase verdict.Phase) *Error {
	return &Error{Message: redact.EscapeText(cause.Error()), Class: ClassOf(cause), Causes: causesOf(cause), Phase: phase, cause: cause}
}

// Error says what went wrong.
func (e *Error) Error() string { return e.Message }

// Is reports whether one of its causes is the target.
func (e *Error) Is(target error) bool {
	return slices.ContainsFunc(e.Causes, func(c Cause) bool { return c.is() == target && target != nil })
}

// Unwrap returns what went wrong, nil if that happened in another process.
func (e *Error) Unwrap() error { return e.cause }
