package preferencepair

import (
	"cmp"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/task"
)

// verdicts is the candidate that gives a verdict on each order.
func verdicts(written, turned compare.Set) (string, bool) {
	a, b := label(written), label(turned)
	list, err := candidate.JoinTexts(&a, &b)
	return string(list), err == nil && a != "" && b != ""
}

// baselines answer by place, by length or by the alphabet.
func baselines() []family.Baseline {
	byPlace := func(name string, s compare.Set) family.Baseline {
		return family.Baseline{Name: name, Chance: byPlaceChance, Answer: func(task.AgentView) (string, bool) { return verdicts(s, s) }}
	}
	byContent := func(name string, pick func(a, b said) compare.Set) family.Baseline {
		return family.Baseline{Name: name, Chance: byContentChance, Answer: func(v task.AgentView) (string, bool) {
			s := pick(pair(v))
			return verdicts(s, exchanged(s))
		}}
	}
	return []family.Baseline{
		byPlace("always A", first),
		byPlace("always B", second),
		byPlace("always tie", tie),
		byContent("the longer candidate", longest),
		byContent("the shorter candidate", func(a, b said) compare.Set { return exchanged(longest(a, b)) }),
		byContent("the first by the alphabet", func(a, b said) compare.Set {
			switch cmp.Compare(a.text, b.text) {
			case -1:
				return first
			case 1:
				return second
			}
			return 0
		}),
	}
}

// longest returns the longer candidate, the second one of two that are equally long.
func longest(a, b said) compare.Set {
	return cmp.Or(longer(a, b), second)
}

// byPlaceChance is how likely a guess for each order passes.
func byPlaceChance(c family.Case) float64 {
	one := 1.0 / 2
	if allowsTie(c.Sandbox) {
		one = 1.0 / 3
	}
	if isBoth(c.Sandbox) {
		return one * one
	}
	return one
}

// byContentChance is how likely one guess passes that names the same candidate in every
// order, and never a tie.
func byContentChance(c family.Case) float64 {
	if goldOf(c.Evaluator).right == tie {
		return 0
	}
	return 1.0 / 2
}
