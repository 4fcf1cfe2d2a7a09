package sandboxed_test

import (
	"errors"
	"fmt"
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// TestSettle: a box whose init is lost is no verdict about the candidate in it, unless
// that ran into a limit.
func TestSettle(t *testing.T) {
	t.Parallel()
	lost := fmt.Errorf("reading: %w", initproc.ErrLost)
	disturbed := errors.Join(lost, sandbox.ErrDisturbed)
	engine, wrong := errors.New("the engine does not answer"), family.Fail(verdict.TestsFailed, "wrong")
	memory := []sandbox.End{sandbox.OutOfMemory}
	for _, tt := range []struct {
		name        string
		err         error
		limits      []sandbox.End
		endErr      error
		live        bool
		want        error
		wantVerdict bool
	}{
		{name: "a pass", live: true},
		{name: "a failure", err: wrong, live: true, want: wrong, wantVerdict: true},
		{name: "an error of the engine's at the end", err: wrong, endErr: engine, live: true, want: engine},
		{name: "lost after the last step", endErr: lost, live: true, want: lost},
		{name: "lost in a step", err: lost, endErr: lost, live: true, want: lost},
		{name: "lost in a step, which the end does not know", err: lost, live: true, want: lost},
		{name: "lost in a step, out of memory", err: lost, limits: memory, live: true, wantVerdict: true},
		{name: "lost after a failure", err: wrong, endErr: lost, live: true, want: wrong, wantVerdict: true},
		{name: "lost without the candidate", endErr: lost, want: lost},
		{name: "lost in a step without the candidate", err: lost, limits: memory, endErr: lost, want: lost},
		{name: "disturbed", err: lost, endErr: disturbed, live: true, want: disturbed},
	} {
		got := sandboxed.Settle(tt.err, tt.limits, tt.endErr, tt.live)
		var f *family.Failure
		if tt.want != nil && !errors.Is(got, tt.want) || errors.As(got, &f) != tt.wantVerdict || got != nil && tt.want == nil && !tt.wantVerdict {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
