package main

import "errors"

// The exit codes. They are part of the command's contract and documented in
// its help.
const (
	exitDone        = 0
	exitInternal    = 1
	exitUsage       = 2
	exitConfig      = 10
	exitPack        = 11
	exitEngine      = 12
	exitIntegrity   = 13
	exitProblems    = 14
	exitRefused     = 15
	exitFailOn      = 20
	exitInfra       = 21
	exitInterrupted = 130
)

const exitCodesHelp = `
Exit codes:
  0    done (tasks may have failed)
  1    internal error, or the output could not be printed
  2    wrong usage
  10   the configuration is invalid
  11   the pack is invalid, or at fault for attempts that could not be made
  12   no sandbox engine, or an image is missing
  13   an integrity check failed, or a bundle is broken
  14   a check found problems
  15   refused: locked, there already, cannot be written, or inputs changed
  20   the condition of --fail-on is met
  21   infrastructure errors are left
  130  interrupted; --resume goes on`

// codedError is an error that ends the process with a code of its own.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// coded gives err an exit code; nil stays nil and a code once given stays. A
// result that could not be printed says nothing about what it is of.
func coded(code int, err error) error {
	var c *codedError
	var w *writeError
	if err == nil || errors.As(err, &c) || errors.As(err, &w) {
		return err
	}
	return &codedError{code, err}
}

// exitCode is the one place where errors become exit codes.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	var c *codedError
	if errors.As(err, &c) {
		return c.code
	}
	return exitInternal
}
