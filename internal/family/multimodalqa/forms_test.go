package multimodalqa

import (
	"testing"

	"securebench/internal/family"
	"securebench/internal/verdict"
)

// TestHonestForms: answers as models write them about pictures.
func TestHonestForms(t *testing.T) {
	t.Parallel()
	v := newVerifier(family.Resources{})
	fractions := []string{`$\frac{\sqrt{2} - 1}{2}$`, `$\frac{1}{4}$`, `$\frac{2 - \sqrt{2}}{2}$`, `$\frac{\sqrt{2}}{4}$`, `$2 - \sqrt{2}$`}
	for _, tt := range []struct {
		question string
		choices  []string
		answer   any
		said     string
		wrong    bool
	}{
		{"How many grams does one cube weigh?", nil, "21", `So, one cube weighs \boxed{21} grams.`, false},
		{"What is the weight of one cube in grams?", nil, "21", `So, one cube weighs \boxed{21} grams.`, false},
		{"Four cubes weigh 84 g. How much does one cube weigh?", nil, "21", `So, one cube weighs \boxed{21} grams.`, false},
		{"How many of the six numbers are divisible by 3?", nil, "2", `So \boxed{2} of the numbers are divisible by $3$.`, false},
		{"In how many ways can she colour the figure?", nil, "6", `There are $\boxed{3 \cdot 2 \cdot 1 = 6}$ total possibilities`, false},
		{"In how many ways can she colour the figure?", nil, "6", `$\boxed{3 \cdot 2 \cdot 1 = 6}$ total possibilities`, false},
		{"In how many ways can she colour the figure?", nil, "6", `$\boxed{3 \cdot 2 \cdot 2 = 12}$ total possibilities`, true},
		{"How many trees are not between two others?", nil, "3", `This gives a total of \boxed{3} trees that stand at the edge.`, false},
		{"How many trees are on the left?", nil, "3", `There are a total of \boxed{3} trees that are on the left.`, false},
		{"What is the length of the side?", []string{"$1$", `$\sqrt{6}$`, "$6$"}, "B", `The side is \boxed{\sqrt{6}}.`, false},
		{"What is the length of the side?", []string{"$1$", `$\sqrt{6}$`, "$6$"}, "B", `The side is \boxed{6}.`, true},
		{"What is the ratio?", []string{"$1: 1$", "$3: 2$", "$4: 3$", "$7: 4$", "$8: 5$"}, "E", `Therefore, the ratio x:y is \boxed{8:5}.`, false},
		{"What is the ratio?", []string{"$1: 1$", "$3: 2$", "$4: 3$", "$7: 4$", "$8: 5$"}, "E", `Therefore, the ratio x:y is \boxed{5:8}.`, true},
		{"What is the probability?", fractions, "A", `The probability is $\frac{1}{2} = \boxed{\frac{\sqrt{2}-1}{2}}$.`, false},
		{"What is the probability?", fractions, "A", `The probability is \boxed{\frac{1-\sqrt{2}}{2}}.`, true},
		{"What is the probability?", fractions, "B", `\frac{1}{4}`, false},
		{"Which shape?", []string{"a", "b", "c", "d"}, "D", "\\boxed{\\text{D}}\nSo the answer is (D).", false},
		{"Which shape?", []string{"red", "blue", "green", "black"}, "D", "\\boxed{\\text{D}}\n\nTherefore, the answer is (D).", false},
		{"Two socks with the same number are one pair. How many pairs can he find?", nil, "5", `Jörg can find \boxed{5} pairs of socks.`, false},
		{"Two socks with the same number are one pair. How many socks can he find?", nil, "5", `Jörg can find \boxed{5} pairs of socks.`, true},
		{"She adds an extra square. In how many different ways can she do this?", nil, "3", `There are \boxed{3} different ways to add the extra square.`, false},
		{"In how many different ways can she do this?", nil, "3", `There are \boxed{3} different ways to add the extra square.`, false},
		{"What is the capital?", []string{"Rome", "Paris", "Bonn"}, "B", "(B)", false},
		{"What is the capital?", []string{"Rome", "Paris", "Bonn"}, "B", "B. Paris", false},
		{"What is the capital?", []string{"Rome", "Paris", "Bonn"}, "B", `\boxed{\text{B}}`, false},
		{"What share is red, in percent?", nil, "12.5", "12.5%", false},
		{"What share is red?", nil, "12.5%", "12.5%", false},
		{"What is the value?", nil, "12.5", "It is 12.5", false},
		{"What is the value?", nil, "12.5", "12.50", false},
		{"What is the term?", []string{`$3x + 2$`, `$2x+3$`}, "A", `\boxed{3x+2}`, false},
		{"What is the term?", []string{`$3x + 2$`, `$2x+3$`}, "A", `$3x+2$`, false},
		{"What is the term?", []string{`$3x + 2$`, `$2x+3$`}, "A", `\boxed{2x+3}`, true},
	} {
		got := say(t, v, caseOf(t, tt.question, tt.choices, tt.answer, ""), tt.said)
		if passed := got.Outcome == verdict.Passed; passed == tt.wrong {
			t.Errorf("%s | %v | %s: %s %s %s", tt.question, tt.answer, tt.said, got.Outcome, got.Reason, got.Message)
		}
	}
}
