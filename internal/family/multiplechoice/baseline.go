package multiplechoice

import (
	"unicode/utf8"

	"securebench/internal/family"
	"securebench/internal/task"
)

// baselines answer with a label whatever is asked, by the place or length of a
// choice, or with what is no choice.
func baselines() []family.Baseline {
	var out []family.Baseline
	for i := range maxChoices {
		out = append(out, family.Baseline{Name: "always " + label(i), Answer: pick(func(choices []string) (string, bool) {
			return label(i), i < len(choices)
		})})
	}
	out = append(out,
		family.Baseline{Name: "the first choice's text", Answer: pick(func(choices []string) (string, bool) { return choices[0], true })},
		family.Baseline{Name: "the last choice's text", Answer: pick(func(choices []string) (string, bool) { return choices[len(choices)-1], true })},
		family.Baseline{Name: "the last label", Answer: pick(func(choices []string) (string, bool) { return label(len(choices) - 1), true })},
		family.Baseline{Name: "the longest choice", Answer: pick(extreme(func(n, best int) bool { return n > best }))},
		family.Baseline{Name: "the shortest choice", Answer: pick(extreme(func(n, best int) bool { return n < best }))},
		family.Echo("question"))
	return append(out, family.Constants("0", "1", "true", "false", "yes", "no")...)
}

// label is the label of the choice at position i.
func label(i int) string { return string(rune('A' + i)) }

// pick makes an answer of a choice among a row's choices.
func pick(from func(choices []string) (string, bool)) func(task.AgentView) (string, bool) {
	return func(v task.AgentView) (string, bool) {
		r, _ := v.Get("choices")
		choices, ok := texts(r.Value)
		if !ok || len(choices) == 0 || len(choices) > maxChoices {
			return "", false
		}
		return from(choices)
	}
}

// extreme answers with the label of the first choice whose length is beyond
// that of every other before it.
func extreme(beyond func(n, best int) bool) func([]string) (string, bool) {
	return func(choices []string) (string, bool) {
		at, best := 0, utf8.RuneCountInString(choices[0])
		for i, c := range choices {
			if n := utf8.RuneCountInString(c); beyond(n, best) {
				at, best = i, n
			}
		}
		return label(at), true
	}
}

// chance is the part of the choices that is right.
func chance(v task.EvaluatorView) (float64, bool) {
	list, _ := v.Get("choices")
	answer, _ := v.Get("answer")
	choices, ok := texts(list.Value)
	if !ok || len(choices) == 0 {
		return 0, false
	}
	return float64(len(goldChoices(choices, answer.Value))) / float64(len(choices)), true
}
