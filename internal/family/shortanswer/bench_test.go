package shortanswer

import (
	"strings"
	"testing"

	"securebench/internal/family/textmatch/compare"
	"securebench/internal/memtest"
)

// hostile are texts that are repeated to make candidates that are meant to be slow.
var hostile = map[string]string{
	"digits": "1", "groups": ",111", "numbers": "1 ", "points": ".", "letters": "a", "words": "aa ",
	"markers": "answer ", "signs": "-$", "lines": "a\n", "blank": " ", "marks": "e\u0301",
	"capitals": "İ", "commas": ",", "ands": " and ", "quotes": "a'", "breaks": "\u2028",
	"boxes": "\\boxed{1} ", "open boxes": "\\boxed{", "braces": "{", "marked sentences": "Answer: 1. ", "marked lines": "Answer:\n",
	"thoughts": "<think>a</think>", "open thoughts": "<think>", "tags": "<answer>", "stops": "</s>", "formulas": "$a$ ", "commands": "\\text{a}",
	"sentences": "A. ", "hanging": "or\n", "about": "answer to a ", "dollars": "$", "displays": "\\[", "stars": "*a* ", "open stars": " *a",
	"compounds": "a and aa'", "list": "1, ", "dashes": "–", "dashed": "– ", "letters of apostrophes": "ʼ",
	"marks without an end": "答案是25", "units": "1 km ", "dates": "5 March 2024, ", "frames": "the ", "arrays": "[\n", "long marks": "Answer: " + strings.Repeat("a, ", 330) + "1\n",
}

// hostileRows are the keys that they are scored by.
func hostileRows(t testing.TB) map[string]*key {
	return map[string]*key{
		"text":    newTestKey(t, `["Denver Broncos", "aaaa", "5 km"]`, "", "", "Who won? "+strings.Repeat("a ", 500)),
		"formula": newTestKey(t, `["\\frac{a}{b} = 2", "5 March 2024", "10:30 am"]`, "", "", "What is it?"),
		"number":  newTestKey(t, `[3, "1e400"]`, "0.1", "", "How many of them? "+strings.Repeat("1 a ", 500)),
		"span":    newTestKey(t, `["aa b"]`, "", `{"type": "span", "max_extra_words": 1000}`, ""),
		"set":     newTestKey(t, `["a", "b", 3]`, "", `{"type": "set"}`, ""),
		"large":   newTestKey(t, "[1"+strings.Repeat(`, 1, "a and aa"`, compare.MaxSet/2-1)+"]", "1e9", `{"type": "set"}`, ""),
	}
}

// TestHostileTexts ends: texts of the length of a statement, which are read whole, once
// took minutes.
func TestHostileTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this computes for long, one thing at a time")
	}
	rows := hostileRows(t)
	for _, unit := range hostile {
		for _, k := range rows {
			k.match("Answer: "+strings.Repeat(unit, 4000/len(unit)), false)
			k.match(strings.Repeat(unit, 4000/len(unit)), false)
		}
	}
}

// TestLongTexts: of a text of any length an end of the same length is read, so that four
// times the text costs no more than copies of it.
func TestLongTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this computes for long, one thing at a time")
	}
	k := hostileRows(t)["number"]
	for _, name := range []string{"lines", "boxes", "marked sentences", "tags", "formulas", "words"} {
		allocated := func(size int) int64 {
			text := strings.Repeat(hostile[name], size/len(hostile[name]))
			return memtest.Allocated(func() { k.match(text, false) })
		}
		const size = 256 << 10
		allocated(size) // what is read once
		if one, four := allocated(size), allocated(4*size); four > one+60*size {
			t.Errorf("%s: %d bytes are allocated for 1 MiB, and %d for 256 KiB", name, four, one)
		}
	}
}

// BenchmarkMatch scores candidates of 1 MiB: as it is, and in lines of 30 KiB.
func BenchmarkMatch(b *testing.B) {
	rows := hostileRows(b)
	for name, unit := range hostile {
		for row, k := range rows {
			line := strings.Repeat(unit, 30<<10/len(unit)) + "\n"
			for kind, candidate := range map[string]string{"whole": strings.Repeat(unit, 1<<20/len(unit)), "lines": strings.Repeat(line, 1<<20/len(line))} {
				b.Run(name+"/"+row+"/"+kind, func(b *testing.B) {
					for b.Loop() {
						k.match(candidate, false)
					}
				})
			}
		}
	}
}
