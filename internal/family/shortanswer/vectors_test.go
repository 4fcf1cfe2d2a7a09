package shortanswer

import (
	"testing"

	"securebench/internal/family/textmatch/vectortest"
)

func TestVectors(t *testing.T) {
	vectortest.Run(t, "short_answer", func(t *testing.T, v vectortest.Vector) string {
		k, err := newKey(v.AcceptedAnswers, v.Tolerance, nil)
		if err != nil {
			t.Fatal(err)
		}
		k.ask("", "")
		return string(k.Match(v.Candidate).Outcome)
	})
}
