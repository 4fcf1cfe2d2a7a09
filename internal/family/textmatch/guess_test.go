package textmatch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/family"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/verdict"
)

// guesses are the answers that a row could have, as tasks that differ in nothing
// else, and a strong statement of each.
type guesses struct {
	name   string
	score  []func(string) family.Verdict
	golds  []string
	tokens []string
}

func allGuesses(t *testing.T) []guesses {
	t.Helper()
	common := []string{
		"Answer:", "answer", "final answer is", "The answer is", "Final Answer", "is", "not", "or", "and", "but", "so", "the", "correct", "wrong", "if",
		"\n", ".", ",", " ", "(", ")", "*", "**", "`", "-", "=", "$", "\\boxed{", "}", "####", "<think>", "</think>", "</s>", "<answer>", "</answer>",
		"\\(", "\\text{", "\\[", "?", "!", "because", "I choose", "it is", "maybe", "A:", "option", "actually", "\u200b",
	}
	number := guesses{name: "number", golds: []string{"25", "26", "-25", "7", "25000000", "2", "0.25", "625", "-26"}}
	number.tokens = append([]string{"25", "26", "7", "minus", "million", "squared", "per", "every", "in", "apples", "km", "%", "/", "^2", "twenty"}, common...)
	public := map[string]any{"question": "How many apples does he pick every 7 days?"}
	for _, g := range number.golds {
		number.score = append(number.score, newScorer(t, shortanswer.Family(), public, map[string]any{"accepted_answers": []string{g}}))
	}
	name := guesses{name: "text", golds: []string{"Paris", "London", "New York", "York"}}
	name.tokens = append([]string{"Paris", "London", "New", "York", "capital", "France", "of", "city"}, common...)
	public = map[string]any{"question": "What is the capital of France?"}
	for _, g := range name.golds {
		name.score = append(name.score, newScorer(t, shortanswer.Family(), public, map[string]any{"accepted_answers": []string{g}}))
	}
	choice := guesses{name: "choice", golds: []string{"A", "B", "C", "D"}}
	choice.tokens = append([]string{"A", "B", "C", "a", "London", "Paris", "No", "Option", "choice", "best"}, common...)
	public = map[string]any{"question": "What is the capital of France?", "choices": []string{"London", "Paris", "No", "A man"}}
	for _, g := range choice.golds {
		choice.score = append(choice.score, newScorer(t, multiplechoice.Family(), public, map[string]any{"answer": g}))
	}
	return []guesses{number, name, choice}
}

// passes returns the answers for which a text would pass.
func (g guesses) passes(text string) []string {
	var out []string
	for i, score := range g.score {
		if score(text).Outcome == verdict.Passed {
			out = append(out, g.golds[i])
		}
	}
	return out
}

// text draws a text of the tokens of g.
func (g guesses) text(t *rapid.T) string {
	gap := rapid.SampledFrom([]string{"", " ", " "}).Draw(t, "gap")
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(g.tokens), 0, 16).Draw(t, "tokens"), gap)
}

// TestTextPassesForOneAnswerOnly: whatever is written, it is right for one answer at
// most, and a marked answer after it makes it right for no other one.
func TestTextPassesForOneAnswerOnly(t *testing.T) {
	for _, g := range allGuesses(t) {
		t.Run(g.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := g.text(t)
				if got := g.passes(text); len(got) > 1 {
					t.Fatalf("%q is right for %q", text, got)
				}
				gold := rapid.SampledFrom(g.golds).Draw(t, "gold")
				boxed := fmt.Sprintf("%s\n\nAll in all:\n\n\\boxed{%s}.", text, gold)
				before := g.passes(text)
				for _, got := range g.passes(boxed) {
					if got != gold && !slices.Contains(before, got) {
						t.Fatalf("%q is right for %s", boxed, got)
					}
				}
			})
		})
	}
}
