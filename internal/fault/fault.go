// Package fault classifies errors by whose fault they are. Commands map the
// kind to an exit code; no other package knows exit codes.
package fault

import (
	"errors"
	"fmt"
)

// Kind says whose fault an error is, or why a command does not succeed.
type Kind string

// The kinds of errors.
const (
	Internal       Kind = "internal"       // this program, or its output
	Usage          Kind = "usage"          // the command line
	Config         Kind = "config"         // the tester YAML, the environment, a key file
	Pack           Kind = "pack"           // the pack's files
	Engine         Kind = "engine"         // the sandbox engine, or a missing image
	Integrity      Kind = "integrity"      // content does not match its records, signature or digest
	Problems       Kind = "problems"       // a check found problems
	Refused        Kind = "refused"        // the action would overwrite, mix or disturb something
	Threshold      Kind = "threshold"      // a condition that the operator set is met
	Infrastructure Kind = "infrastructure" // the machine, for example a full disk
	Interrupted    Kind = "interrupted"    // the operator stopped the command
	Drained        Kind = "drained"        // a worker was told to leave a run
)

// Error is an error of a known kind.
type Error struct {
	Kind Kind
	Err  error
}

// Error returns the message of the wrapped error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// As assigns a kind to err; nil stays nil, and an error that has a kind keeps
// it.
func As(kind Kind, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &Error{kind, err}
}

// Errorf formats an error of a kind, regardless of the kind of a wrapped
// error.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{kind, fmt.Errorf(format, args...)}
}

// KindOf returns the kind of an error, or [Internal] if it has none.
func KindOf(err error) Kind {
	var known *Error
	if errors.As(err, &known) {
		return known.Kind
	}
	return Internal
}
