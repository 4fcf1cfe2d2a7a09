package multiplechoice

import (
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/textmatch/number"
	"securebench/internal/family/textmatch/vectortest"
)

// TestBBHOutputs replays real chains of thought.
func TestBBHOutputs(t *testing.T) {
	vectortest.Replay(t, "multiple_choice", func(r vectortest.Replayed) family.Verdict {
		k, err := newKey(r.Input.Choices, r.Eval.Answer)
		if err != nil {
			t.Fatal(err)
		}
		k.question = number.NewQuestion(r.Input.Question, "")
		return k.Match(r.Response)
	})
}
