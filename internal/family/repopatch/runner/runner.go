// Package runner runs a repository's tests in a sandbox and grades their
// results by name.
package runner

import (
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// Tests is what a row says about its tests.
type Tests struct {
	Command    []string // argv; a string of the row is already wrapped in a shell
	Dir        string   // absolute: the checkout, where the command runs
	Runner     string   // "", pytest, unittest, django, sympy, go, junit, tap
	FailToPass []string
	PassToPass []string
	Expected   map[string]string // id → "skipped" or "xfailed": what it does with the gold patch
	TestFiles  []string          // paths that the test patch writes, relative to the checkout, sorted
	Env        []string          // NAME=VALUE, of the row
}

// Named reports whether the tests are graded by name.
func (t Tests) Named() bool { return len(t.FailToPass)+len(t.PassToPass) > 0 }

// Command is one command in the test sandbox.
type Command struct {
	Argv []string
	Env  []string // on top of the image's own variables
	Dir  string
}

// Probe returns the command that finds out, in the pristine sandbox and before
// any candidate is there, what the run depends on (the interpreter's path, the
// plugins that the image has). Its standard output goes to [New]. False means
// that there is nothing to find out.
func Probe(t Tests) (Command, bool) { panic("not written yet") }

// Plan is one run of the tests.
type Plan struct {
	Command
	// Files are the canaries: files to lay into the checkout, by path, over
	// whatever stands there.
	Files map[string][]byte
}

// New plans a run. probed is what the probe printed. The seed makes names and
// places of canaries unpredictable. An error is the pack's fault.
func New(t Tests, probed []byte, seed [32]byte) (*Plan, error) { panic("not written yet") }

// Ran is how the command ended.
type Ran struct {
	End            sandbox.End // sandbox.Exited, or the limit that ended it
	ExitCode       int
	Stdout, Stderr []byte // bounded; Stdout is the channel of our drivers
	// Truncated is set if an output was longer than its limit.
	Truncated bool
}

// Grade is what the tests say.
type Grade struct {
	Outcome  verdict.Outcome // Passed, Failed or Tampering
	Reason   verdict.Reason
	Message  string   // one line without anything of the candidate or the tests
	Labels   []string // e.g. "text_report"
	Metadata map[string]any
	// Restricted holds results by test id, never published, by file name.
	Restricted map[string][]byte
}

// Grade decides by the results.
func (p *Plan) Grade(r Ran) Grade { panic("not written yet") }
