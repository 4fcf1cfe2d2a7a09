package textmatch_test

import (
	"strings"
	"testing"

	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/verdict"
)

// BenchmarkTypicalReply scores a chain of thought of about 1 KiB, as most models write
// them: its own row for a number, a text and a choice.
func BenchmarkTypicalReply(b *testing.B) {
	thought := strings.Repeat("First we note that each of the 5 baskets holds 5 apples, so that 5 × 5 = 25 of them are there.\n", 8)
	for _, row := range []struct {
		name, family string
		public, gold map[string]any
		end          string
	}{
		{"number", "short_answer", map[string]any{"question": "Tom fills 5 baskets. How many apples does he pick?"}, map[string]any{"accepted_answers": []string{"25"}}, "The answer is 25."},
		{"text", "short_answer", map[string]any{"question": "What does Tom pick?"}, map[string]any{"accepted_answers": []string{"red apples"}}, "The answer is red apples."},
		{"choice", "multiple_choice", map[string]any{"question": "What does Tom pick?", "choices": []string{"pears", "apples", "plums", "figs"}}, map[string]any{"answer": "B"}, "The answer is (B)."},
	} {
		b.Run(row.name, func(b *testing.B) {
			f := shortanswer.Family()
			if row.family == "multiple_choice" {
				f = multiplechoice.Family()
			}
			score := newScorer(b, f, row.public, row.gold)
			for b.Loop() {
				if v := score(thought + row.end); v.Outcome != verdict.Passed {
					b.Fatal(v.Message)
				}
			}
		})
	}
}
