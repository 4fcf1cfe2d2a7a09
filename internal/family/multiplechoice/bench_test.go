package multiplechoice

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// BenchmarkMatch scores candidates of 1 MiB that are meant to be slow.
func BenchmarkMatch(b *testing.B) {
	k, err := newKey([]string{"DNS", "TLS", "Köln", strings.Repeat("long ", 50)}, jsontext.Value(`1`), nil, "")
	if err != nil {
		b.Fatal(err)
	}
	for name, unit := range map[string]string{
		"stars": "*", "leads": "answer ", "labels": "A, ", "lines": "Answer: A\n", "letters": "é",
		"quotes": "“", "marks": "e\u0301", "negators": "not answer ", "blank": " ", "separators": "A)-",
		"breaks": "\u2028", "bare": "A\n", "dollars": "$", "texts": "dns\n", "capitals": "İ", "sigma": "Σ", "clauses": "so ", "choices": "I choose B\n",
	} {
		for _, prefix := range []string{"", "Answer: "} {
			candidate := prefix + strings.Repeat(unit, 1<<20/len(unit))
			b.Run(name+"/"+prefix, func(b *testing.B) {
				for b.Loop() {
					k.match(candidate, false)
				}
			})
		}
	}
}
