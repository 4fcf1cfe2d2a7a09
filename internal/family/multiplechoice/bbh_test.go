package multiplechoice

import (
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

// TestBBHOutputs replays real chains of thought.
func TestBBHOutputs(t *testing.T) {
	familytest.Replay(t, "multiple_choice", func(r familytest.Replayed) family.Verdict {
		k, err := newKey(r.Input.Choices, r.Eval.Answer)
		if err != nil {
			t.Fatal(err)
		}
		k.question = answer.Ask(r.Input.Question, "", vocabulary.Every)
		return k.match(r.Response, false)
	})
}
