package shortanswer

import (
	"strings"
	"testing"

	"securebench/internal/family/textmatch/compare"
)

// BenchmarkMatch scores candidates of 1 MiB that are meant to be slow.
func BenchmarkMatch(b *testing.B) {
	rows := map[string]*key{
		"text":   newTestKey(b, `["Denver Broncos", "aaaa", "5 km"]`, "", "", "Who won? "+strings.Repeat("a ", 500)),
		"number": newTestKey(b, `[3, "1e400"]`, "0.1", "", ""),
		"span":   newTestKey(b, `["aa b"]`, "", `{"type": "span", "max_extra_words": 1000}`, ""),
		"set":    newTestKey(b, `["a", "b", 3]`, "", `{"type": "set"}`, ""),
		"large":  newTestKey(b, "[1"+strings.Repeat(`, 1, "a and aa"`, compare.MaxSet/2-1)+"]", "1e9", `{"type": "set"}`, ""),
	}
	for name, unit := range map[string]string{
		"digits": "1", "groups": ",111", "numbers": "1 ", "points": ".", "letters": "a", "words": "aa ",
		"markers": "answer ", "signs": "-$", "lines": "a\n", "blank": " ", "marks": "e\u0301",
		"capitals": "İ", "commas": ",", "ands": " and ", "quotes": "a'", "breaks": "\u2028",
		"boxes": "\\boxed{1} ", "open boxes": "\\boxed{", "braces": "{", "marked sentences": "Answer: 1. ", "marked lines": "Answer:\n",
		"thoughts": "<think>a</think>", "open thoughts": "<think>", "tags": "<answer>", "stops": "</s>", "formulas": "$a$ ", "commands": "\\text{a}",
		"sentences": "A. ", "hanging": "or\n", "about": "answer to a ", "dollars": "$", "displays": "\\[", "stars": "*a* ", "open stars": " *a",
		"compounds": "a and aa'", "list": "1, ", "dashes": "–", "dashed": "– ", "letters of apostrophes": "ʼ",
	} {
		for row, k := range rows {
			candidate := strings.Repeat(unit, 1<<20/len(unit))
			if row == "large" { // as much as is looked at
				candidate = candidate[:min(len(candidate), 64<<10)]
			}
			b.Run(name+"/"+row, func(b *testing.B) {
				for b.Loop() {
					k.Match(candidate)
				}
			})
		}
	}
}
