package shortanswer

import (
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/textmatch/vectortest"
)

// TestBBHOutputs replays real chains of thought.
func TestBBHOutputs(t *testing.T) {
	vectortest.Replay(t, "short_answer", func(r vectortest.Replayed) family.Verdict {
		return newTestKey(t, string(r.Eval.AcceptedAnswers), "", "", r.Input.Question).Match(r.Response)
	})
}
