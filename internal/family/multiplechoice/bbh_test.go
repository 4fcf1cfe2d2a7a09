package multiplechoice

import (
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/textmatch/number"
)

// TestBBHOutputs replays real chains of thought.
func TestBBHOutputs(t *testing.T) {
	familytest.Replay(t, "multiple_choice", func(r familytest.Replayed) family.Verdict {
		k, err := newKey(r.Input.Choices, r.Eval.Answer)
		if err != nil {
			t.Fatal(err)
		}
		k.question = number.NewQuestion(r.Input.Question, "")
		return k.Match(r.Response)
	})
}
