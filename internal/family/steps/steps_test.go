package steps_test

import (
	"errors"
	"fmt"
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/steps"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// TestSettle: only a box that is lost with the candidate in it, and not disturbed, is
// the candidate's failure.
func TestSettle(t *testing.T) {
	t.Parallel()
	lost := fmt.Errorf("reading: %w", initproc.ErrLost)
	disturbed := errors.Join(lost, sandbox.ErrDisturbed)
	engine, wrong := errors.New("the engine does not answer"), family.Fail(verdict.TestsFailed, "wrong")
	exited := family.Fail(verdict.WorkerExited, "the sandbox ended while the candidate was in it")
	for _, tt := range []struct {
		name        string
		err, endErr error
		live        bool
		want        error
	}{
		{"a pass", nil, nil, true, nil},
		{"a failure", wrong, nil, true, wrong},
		{"an error of the engine's at the end", wrong, engine, true, engine},
		{"lost after the last step", nil, lost, true, exited},
		{"lost in a step", lost, lost, true, exited},
		{"lost in a step, which the end does not know", lost, nil, true, exited},
		{"lost after a failure", wrong, lost, true, wrong},
		{"lost without the candidate", nil, lost, false, lost},
		{"lost in a step without the candidate", lost, lost, false, lost},
		{"disturbed", lost, disturbed, true, disturbed},
	} {
		got := steps.Settle(tt.err, tt.endErr, tt.live)
		if (got == nil) != (tt.want == nil) || got != nil && got.Error() != tt.want.Error() {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
