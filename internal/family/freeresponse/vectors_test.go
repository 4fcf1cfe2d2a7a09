package freeresponse

import (
	"testing"

	"securebench/internal/family/familytest"
)

func TestVectors(t *testing.T) {
	familytest.Run(t, "free_response", func(t *testing.T, v familytest.Vector) string {
		r, err := newRubric(v.Rubric)
		if err != nil {
			t.Fatal(err)
		}
		return string(r.match(v.Candidate).Outcome)
	})
}
