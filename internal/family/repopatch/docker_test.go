package repopatch

import (
	"testing"

	"securebench/internal/verdict"
)

// TestHonestAndWrong scores plain patches by the exit code of the test command.
func TestHonestAndWrong(t *testing.T) {
	b := newBench(t, project(), "", "")
	c := b.row(t, nil)
	for range 2 { // the second time from what was kept
		got := b.score(t, c, mended)
		if got.Outcome != verdict.Passed || got.Phase != phaseChecks || got.Containment != verdict.Shared {
			t.Errorf("the right patch: %s", describe(got))
		}
		got = b.score(t, c, spoilt)
		if got.Outcome != verdict.Failed || got.Reason != verdict.TestsFailed || got.Phase != phaseChecks {
			t.Errorf("a wrong patch: %s", describe(got))
		}
	}
}
