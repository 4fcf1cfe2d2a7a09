package reverify_test

import (
	"testing"

	"securebench/internal/pipeline/commit"
	"securebench/internal/reverify"
)

// TestEqual: a measure that was changed, or added to a pass, is a difference; a record of
// a build that knew none is compared in its other parts.
func TestEqual(t *testing.T) {
	judged := func(measure string) commit.Judged {
		return commit.Judged{Status: "passed", Outcome: "passed", Measure: measure}
	}
	for _, tt := range []struct {
		was, is string
		equal   bool
	}{{"checker=0.5", "checker=0.5", true}, {"checker=1", "checker=0.5", false}, {"reward=1", "", false}, {"", "checker=0.5", true}, {"", "", true}} {
		if got := (reverify.Rederived{Was: judged(tt.was), Is: judged(tt.is)}).Equal(); got != tt.equal {
			t.Errorf("%q, then %q: %v", tt.was, tt.is, got)
		}
	}
}
