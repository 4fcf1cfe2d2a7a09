package multiplechoice

import (
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
)

// TestBBHOutputs replays real chains of thought.
func TestBBHOutputs(t *testing.T) {
	familytest.Replay(t, "multiple_choice", func(r familytest.Replayed) family.Verdict {
		k, err := newKey(r.Input.Choices, r.Eval.Answer, nil, r.Input.Question)
		if err != nil {
			t.Fatal(err)
		}
		return k.match(r.Response, false)
	})
}
