package toolcall

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
)

// BenchmarkVerify scores a stated call, from the row to the verdict: at most 0.5 ms.
func BenchmarkVerify(b *testing.B) {
	for _, rule := range []string{ruleJSON, ruleBFCL} {
		b.Run(rule, func(b *testing.B) {
			c := familytest.Case(b, "tool_call",
				task.Resource{Name: "tools", Lane: task.Public, Value: jsontext.Value(trip)},
				task.Resource{Name: "expected_calls", Value: jsontext.Value(`[{"name":"trip.book","arguments":{"people":2,"price":1.5,"to":"Rome"}}]`)},
				task.Resource{Name: "match", Value: jsontext.Value(`{"rule":"` + rule + `"}`)})
			v := newVerifier(family.Resources{})
			said := candidate.New(task.Text, candidate.Stdout, []byte("```json\n[{\"name\":\"trip_book\",\"arguments\":{\"people\":2,\"price\":1.50,\"to\":\"Rome\"}}]\n```"))
			for b.Loop() {
				if got := familytest.Verify(b, v, c, said); got.Outcome == "" {
					b.Fatal("no verdict")
				}
			}
		})
	}
}

// BenchmarkHostile scores candidates of 1 MiB that are meant to be slow.
func BenchmarkHostile(b *testing.B) {
	k := keyFor(b, trip, `[{"name":"trip_cancel"}]`, `{"extra":"allow"}`)
	for name, unit := range map[string]string{"calls": "trip_cancel(),", "lists": "[", "blocks": "```\nf()\n```\n", "elements": "<tool_call>", "tags": "<think>", "texts": "'a'", "numbers": "1,"} {
		candidate := strings.Repeat(unit, 1<<20/len(unit))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				k.score(candidate, false)
			}
		})
	}
}
