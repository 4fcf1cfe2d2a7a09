package preferencepair

import (
	"strings"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// BenchmarkPair scores what judges say of a pair: a label, a mark after their reasons, and
// a sentence after those.
func BenchmarkPair(b *testing.B) {
	reasons := strings.Repeat("Assistant A explains the first step well. Assistant B makes a mistake in its second step, so its answer is wrong.\n", 12)
	for name, text := range map[string]string{"label": "A", "mark": reasons + "My final verdict is: [[A>B]]", "sentence": reasons + "Therefore, Response A is better."} {
		b.Run(name, func(b *testing.B) {
			turned := strings.NewReplacer("A", "B", "B", "A").Replace(text)
			list, err := candidate.JoinTexts(&text, &turned)
			if err != nil {
				b.Fatal(err)
			}
			v, c := newVerifier(family.Resources{}), rowCase(b, map[string]any{"prompt": "Which?", "candidate_a": "one", "candidate_b": "another"}, map[string]any{"preference": "A"})
			submitted := candidate.New(task.Text, candidate.Stdout, list)
			for b.Loop() {
				if got := familytest.Verify(b, v, c, submitted); got.Outcome != verdict.Passed {
					b.Fatalf("it is %s: %s", got.Outcome, got.Message)
				}
			}
			if per := b.Elapsed() / time.Duration(b.N); per > 500*time.Microsecond {
				b.Logf("a preference took %s, more than 0.5 ms", per)
			}
		})
	}
}
