package shortanswer

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/memtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestRowsLeaveNothing: of a row that was scored nothing is kept, however many there were:
// numbers, texts, and mathematical expressions that are refused before any sandbox or
// equal as texts.
func TestRowsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this computes for long, one thing at a time")
	}
	v := Family().NewVerifier(family.Resources{})
	defer func() {
		if err := v.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	score := func(n int) {
		for _, row := range []struct{ gold, match, said, want string }{
			{`["%d"]`, `null`, "The answer is %d.", "passed"},
			{`["town %d"]`, `null`, "It is town %d.", "passed"},
			{`["\\text{case %d}"]`, `{"type": "math"}`, `\boxed{\text{case %d}}`, "passed"},
			{`["\\frac{%d}{7}"]`, `{"type": "math"}`, `\boxed{%d \text{ million}}`, "failed ambiguous_answer"},
		} {
			c := familytest.Case(t, "short_answer", task.Resource{Name: "question", Lane: task.Public, Value: familytest.JSON(t, fmt.Sprintf("What comes after %d?", n))},
				task.Resource{Name: "accepted_answers", Value: jsontext.Value(fmt.Sprintf(row.gold, n))}, task.Resource{Name: "match", Value: jsontext.Value(row.match)})
			s := v.Open(t.Context(), c)
			got, err := s.Verify(t.Context(), candidate.New(task.Text, candidate.Stdout, fmt.Appendf(nil, row.said, n)))
			if err != nil || familytest.Outcome(got) != row.want || got.Outcome == verdict.Pending {
				t.Fatalf("%d: %s is %s (%s), %v", n, row.said, familytest.Outcome(got), got.Message, err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range 100 {
		score(n) // what is read once
	}
	before := memtest.Kept()
	for n := range 2000 {
		score(1000 + n)
	}
	if more := memtest.Kept() - before; more > 256<<10 {
		t.Errorf("%d bytes more are kept after 8,000 rows", more)
	}
}
