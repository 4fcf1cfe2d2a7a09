package multiplechoice

import (
	"errors"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/family/familytest"
	"securebench/internal/family/textmatch/compare"
)

func TestVectors(t *testing.T) {
	familytest.Run(t, "multiple_choice", func(t *testing.T, v familytest.Vector) string {
		var choices []string
		if err := json.Unmarshal(v.Choices, &choices); err != nil {
			t.Fatal(err)
		}
		k, err := newKey(choices, v.Answer, nil, "")
		switch {
		case errors.Is(err, compare.ErrTooManyChoices):
			return "too_many_choices"
		case errors.Is(err, errNoValidAnswer):
			return "no_valid_answer"
		case err != nil:
			t.Fatal(err)
		}
		return string(k.match(v.Candidate, false).Outcome)
	})
}
