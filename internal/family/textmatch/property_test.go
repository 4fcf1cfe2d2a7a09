package textmatch_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/family"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/verdict"
)

// unknown are words of no vocabulary, unit or question, and text of other scripts.
var unknown = []string{"zorkmid", "Qwlx", "brzk", "xyzzies", "ᚠᚢᚦ", "ዜሮ", "ศูนย์", "μηδέν", "אפס", "სამი", "ნული", "ꯑꯃꯥ"}

// failing are statements that must not pass: each has the right answer and a word or sign
// that changes it, or another one.
var failing = map[string][]string{
	"25": {
		"25 million", "minus 25", "less than 25", "about 25", "not 25", "25 or 30", "maybe 25", "25 is wrong", "half of 25", "25 squared",
		"Answer: 25 million", "Answer: not 25", "The answer is 24", "The answer is at most 25", "Answer: 25 or 26", "So the answer is almost 25.",
		"#### 25 percent", "#### 24", "\\boxed{24}", "\\boxed{25 million}", "The answer is not \\boxed{25}", "It is less than \\boxed{25}", "\\boxed{25} is wrong",
		"\\boxed{25} or \\boxed{26}", "twice \\boxed{25}", "{\"answer\": \"not 25\"}", "答案不是25", "25 万", "weniger als 25", "moins de 25", "около 25", "25 أو 30",
	},
	"Paris": {
		"London", "not Paris", "Paris or London", "anything but Paris", "maybe Paris", "Answer: London", "Answer: not Paris", "\\boxed{London}",
		"The answer is not \\boxed{Paris}", "The answer is Paris or Lyon.", "Paris ist falsch", "peut-être Paris", "不是 Paris",
	},
	"B": {
		"A", "A or B", "not B", "B is wrong", "Answer: A", "Answer: not B", "Answer: A or B", "The answer is neither A nor B.", "\\boxed{A}", "\\boxed{A, B}",
		"The answer is not \\boxed{B}", "B. London", "None of A, B is correct.", "I don't think B is correct.", "答案不是B", "答案是A或B", "Die Antwort ist nicht B.",
	},
}

func propertyTasks(t *testing.T) map[string]func(string) family.Verdict {
	t.Helper()
	number := map[string]any{"question": "How many apples does Tom pick?"}
	text := map[string]any{"question": "What is the capital of France?"}
	choice := map[string]any{"question": "What is the capital of France?", "choices": []string{"London", "Paris", "Rome", "Berlin"}}
	return map[string]func(string) family.Verdict{
		"25":    newScorer(t, shortanswer.Family(), number, map[string]any{"accepted_answers": []string{"25"}}),
		"Paris": newScorer(t, shortanswer.Family(), text, map[string]any{"accepted_answers": []string{"Paris"}}),
		"B":     newScorer(t, multiplechoice.Family(), choice, map[string]any{"answer": "B"}),
	}
}

// TestUnknownWordsNeverHelp puts words that nobody knows before, into and after
// statements that fail: none of them passes for it.
func TestUnknownWordsNeverHelp(t *testing.T) {
	for gold, score := range propertyTasks(t) {
		for _, base := range failing[gold] {
			if v := score(base); v.Outcome == verdict.Passed {
				t.Errorf("%s: %q passes as it is", gold, base)
			}
			parts := strings.Split(base, " ")
			for at := 0; at <= len(parts); at++ {
				for _, word := range unknown {
					text := strings.Join(append(append(append([]string{}, parts[:at]...), word), parts[at:]...), " ")
					if v := score(text); v.Outcome == verdict.Passed {
						t.Errorf("%s: %q fails, and passes as %q", gold, base, text)
					}
				}
			}
		}
	}
}

// TestUnknownTextsNeverHelp does the same with several words anywhere.
func TestUnknownTextsNeverHelp(t *testing.T) {
	tasks := propertyTasks(t)
	rapid.Check(t, func(t *rapid.T) {
		gold := rapid.SampledFrom([]string{"25", "Paris", "B"}).Draw(t, "gold")
		parts := strings.Split(rapid.SampledFrom(failing[gold]).Draw(t, "base"), " ")
		for range rapid.IntRange(1, 4).Draw(t, "words") {
			at := rapid.IntRange(0, len(parts)).Draw(t, "at")
			word := rapid.OneOf(rapid.SampledFrom(unknown), rapid.StringMatching(`[bcdfgq-z]{6,9}`)).Draw(t, "word")
			parts = append(parts[:at], append([]string{word}, parts[at:]...)...)
		}
		if text := strings.Join(parts, " "); tasks[gold](text).Outcome == verdict.Passed {
			t.Fatalf("%s: %q passes", gold, text)
		}
	})
}

// TestPermutedChoices: the order of choices changes their labels and nothing else.
func TestPermutedChoices(t *testing.T) {
	outer := t
	choices := []string{"London", "Paris", "Rome", "Berlin"}
	forms := []string{"%", "Answer: %", "The answer is (%).", "\\boxed{%}", "% is correct.", "I choose %.", "答案是%。", "Not %.", "The answer is not %.", "% or &", "Answer: %\nAnswer: &",
		"%. @", "%) @", "Answer: % (@)", "@", "%. #", "Options:\n%) @", "None of &, % is correct.", "It could be %."}
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "order")
		form := rapid.SampledFrom(forms).Draw(t, "form")
		right, other := rapid.IntRange(0, 3).Draw(t, "right"), rapid.IntRange(0, 3).Draw(t, "other")
		verdictOf := func(order []int) string {
			permuted, at := make([]string, 4), map[int]string{}
			for place, i := range order {
				permuted[place] = choices[i]
				at[i] = string(rune('A' + place))
			}
			score := newScorer(outer, multiplechoice.Family(), map[string]any{"question": "Which?", "choices": permuted}, map[string]any{"answer": at[right]})
			text := strings.NewReplacer("%", at[right], "&", at[other], "@", choices[right], "#", choices[(right+1)%4]).Replace(form)
			v := score(text)
			return string(v.Outcome) + " " + string(v.Reason)
		}
		if before, after := verdictOf([]int{0, 1, 2, 3}), verdictOf(order); before != after {
			t.Fatalf("%q is %s, and %s in the order %v", form, before, after, order)
		}
	})
}
