package results

import (
	"testing"

	"securebench/internal/pipeline/commit"
)

// TestVerdictCell: verdicts that differ only in what was extracted from the
// candidate, or how, do not look alike.
func TestVerdictCell(t *testing.T) {
	for want, v := range map[string]commit.Judged{
		"failed (tests_failed) split mutates as_is": {Outcome: "failed", Reason: "tests_failed", Containment: "split", Labels: "mutates", Extraction: "as_is"},
		"passed split fence sha256:0123456789ab": {Outcome: "passed", Containment: "split", Extraction: "fence",
			Extracted: "sha256:0123456789abcdef"},
		"passed split": {Outcome: "passed", Containment: "split"},
	} {
		if got := verdictCell(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
