package shortanswer

import (
	"testing"

	"securebench/internal/verdict"
)

// TestChainsOfThought reads the usual end of a chain of thought where the
// answer is a word that the reasoning speaks of, too.
func TestChainsOfThought(t *testing.T) {
	tests := []struct {
		question, gold string
		right, wrong   []string
	}{
		{"not ( True ) and ( True ) is", "False", []string{
			"We first simplify this expression \"Z\" as follows: \"Z = not ( True ) and ( True ) = not A and B\" where \"A = True\" and \"B = True\".\nPlugging in A and B, we get: Z = not A and B = not True and True = False and True = False. So the answer is False.",
			"not True = False.\nFalse and True = False.\nSo the answer is False.",
			"**Step 1**: `not (True)` = `False`\n\n**Step 2**: `False and True` = `False`\n\n**Answer: False**",
			"The expression evaluates to **False**.\n\nAnswer: **False**", "$\\neg T \\land T = F$\n\n\\boxed{\\text{False}}",
		}, []string{
			"not True = False. So the answer is True.", "So the answer is not False.", "The answer is False. So the answer is True.", "So the answer is True or False.", "False. True.",
		}},
		{"\"Every F is a G. No G is an H. So, no F is an H.\" Is the argument, given the explicitly stated premises, deductively valid or invalid?\nOptions:\n- valid \n- invalid", "valid", []string{
			"(1) Every F is a G: F -> G.\n(2) No G is an H: G -> not H.\nThe conclusion: F -> not H. (1) and (2) give it. So the answer is valid.",
			"The argument is **valid**.\n\nAnswer: valid", "The conclusion follows from the premises.\n\nTherefore, the answer is **valid**.", "So the argument is deductively valid.\n\n**Answer:** Valid", "\\boxed{\\text{valid}}",
		}, []string{
			"The argument may seem valid. So the answer is invalid.", "So the answer is not valid.", "So the answer is valid or invalid.", "valid, invalid", "The answer is invalid. It is not valid.",
		}},
		{"Is the following sentence plausible? \"Sam Darnold passed the puck.\"", "no", []string{
			"Sam Darnold is a football player. Passing the puck is part of ice hockey, not football. So the answer is no.",
			"Passing the puck is part of hockey, yes, but not of football.\nSo the answer is no.", "**No** — he plays football.\n\nAnswer: no", "Answer: No.\n\nPassing the puck belongs to ice hockey.", "The sentence is not plausible. The answer is \"no\".",
		}, []string{
			"Not football. So the answer is yes.", "yes and no", "So the answer is neither yes nor no.", "So the answer is no? So the answer is yes.", "Answer: yes\nAnswer: no",
		}},
		{"Calculate ((-1 + 2 + 9 * 5) - (-2 + -4 + -4 * -7)) =", "24", []string{
			"A = 46 and B = 22.\nThen, the final equation is A - B = 46 - 22 = 24. So the answer is 24.",
			"Then we have A - B = 46 - 22 = 24.", "46 - 22 = 24", "Answer: 46 - 22 = 24", "$$46 - 22 = \\boxed{24}$$",
		}, []string{
			"A - B = 46 - 22 = 24. So the answer is 22.", "So the answer is -24.", "46 - 22 ≠ 24", "24 = 46 - 22 or 25", "46 - 22 = 25",
		}},
		{"Sort the following words alphabetically: List: oversimplify quaint costume", "costume oversimplify quaint", []string{
			"First letters: \"o\" (15), \"q\" (17), \"c\" (3). We have (3) \"costume\" < (15) \"oversimplify\" < (17) \"quaint\". So the answer is costume oversimplify quaint.",
			"costume oversimplify quaint", "**costume oversimplify quaint**", "Answer: costume oversimplify quaint", "The sorted list is:\n\ncostume oversimplify quaint",
		}, []string{
			"So the answer is oversimplify costume quaint.", "costume quaint oversimplify", "So the answer is costume oversimplify.", "costume oversimplify quaint quaint", "Answer: costume oversimplify quaint or quaint costume oversimplify",
		}},
	}
	for _, tt := range tests {
		k := newTestKey(t, `["`+tt.gold+`"]`, "", "", tt.question)
		for _, s := range tt.right {
			if v := k.match(s, false); v.Outcome != verdict.Passed {
				t.Errorf("%s: %q failed: %s", tt.gold, s, v.Message)
			}
		}
		for _, s := range tt.wrong {
			if v := k.match(s, false); v.Outcome == verdict.Passed {
				t.Errorf("%s: %q passed", tt.gold, s)
			}
		}
	}
}
