package freeresponse

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// BenchmarkMatch scores candidates of 1 MiB that are meant to be slow.
func BenchmarkMatch(b *testing.B) {
	r, err := newRubric(jsontext.Value(`{"accepted_answers": ["Nothing happens", "aaaa aaaa", "+"],
		"rejected_answers": ["You get sick", "a", "aaaaaaaaaaaaaaaaaaaab", "++b"], "min_token_f1": 0.1}`))
	if err != nil {
		b.Fatal(err)
	}
	for name, unit := range map[string]string{
		"letters": "a", "words": "nothing ", "plus": "+", "quotes": "n't ", "marks": "e\u0301",
		"capitals": "İ", "states": "U.S.", "lines": "\n", "sigma": "Σ",
	} {
		candidate := strings.Repeat(unit, 1<<20/len(unit))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.match(candidate)
			}
		})
	}
}
