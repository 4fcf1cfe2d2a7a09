package multiplechoice

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"securebench/internal/family"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/task"
)

// baselines answer with a label whatever is asked, by the place or length of a
// choice, or with something that is not a choice.
func baselines() []family.Baseline {
	var out []family.Baseline
	for i := range compare.MaxChoices {
		out = append(out, pick("always "+label(i), func(choices []string) string {
			if i >= len(choices) {
				return ""
			}
			return label(i)
		}))
	}
	longer := func(a, b string) int { return cmp.Compare(utf8.RuneCountInString(b), utf8.RuneCountInString(a)) }
	shorter := func(a, b string) int { return longer(b, a) }
	first := func(choices []string, order func(a, b string) int) string {
		return label(slices.Index(choices, slices.MinFunc(choices, order)))
	}
	out = append(out,
		pick("the first choice's text", func(choices []string) string { return choices[0] }),
		pick("the last choice's text", func(choices []string) string { return choices[len(choices)-1] }),
		pick("the last label", func(choices []string) string { return label(len(choices) - 1) }),
		pick("the longest choice", func(choices []string) string { return first(choices, longer) }),
		pick("the shortest choice", func(choices []string) string { return first(choices, shorter) }),
		family.Echo("question"))
	return append(out, family.Constants("0", "1", "true", "false", "yes", "no")...)
}

// label is the label of the choice at position i.
func label(i int) string { return string(rune('A' + i)) }

// pick is a baseline that answers from a row's choices; "" means no answer.
func pick(name string, from func(choices []string) string) family.Baseline {
	return family.Baseline{Name: name, Answer: func(v task.AgentView) (string, bool) {
		r, _ := v.Get("choices")
		choices := texts(r.Value)
		if len(choices) == 0 || len(choices) > compare.MaxChoices {
			return "", false
		}
		answer := from(choices)
		return answer, answer != ""
	}}
}
