package freeresponse

import (
	"testing"

	"securebench/internal/family/textmatch/vectortest"
)

func TestVectors(t *testing.T) {
	vectortest.Run(t, "free_response", func(t *testing.T, v vectortest.Vector) string {
		r, err := newRubric(v.Rubric)
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Match(v.Candidate).Outcome)
	})
}
