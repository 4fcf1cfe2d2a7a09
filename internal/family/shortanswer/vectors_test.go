package shortanswer

import (
	"testing"

	"securebench/internal/family/familytest"
)

func TestVectors(t *testing.T) {
	familytest.Run(t, "short_answer", func(t *testing.T, v familytest.Vector) string {
		k, err := newKey(v.AcceptedAnswers, v.Tolerance, nil, "", "")
		if err != nil {
			t.Fatal(err)
		}
		return string(k.match(v.Candidate, false).Outcome)
	})
}
