package shortanswer

import (
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
)

// TestBBHOutputs replays real chains of thought.
func TestBBHOutputs(t *testing.T) {
	familytest.Replay(t, "short_answer", func(r familytest.Replayed) family.Verdict {
		return newTestKey(t, string(r.Eval.AcceptedAnswers), "", "", r.Input.Question).match(r.Response, false)
	})
}
