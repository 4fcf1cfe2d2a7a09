package shortanswer

import (
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/mathmatch"
	"securebench/internal/family/textmatch/compare"
)

// TestStatedExpressions: the expression that a reply states, or none.
func TestStatedExpressions(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		`So the answer is $\boxed{\frac{3}{4}}$.`: `\frac{3}{4}`, `The answer is \(2\sqrt{3}\).`: `\(2\sqrt{3}\)`, "Answer: x^2+1": "x^2+1",
		"**$[0, 1)$**": "**$[0, 1)$**", `x = -\boxed{25}`: "-25", "#### 12": "12", `{"answer": "\\frac{1}{2}"}`: `\frac{1}{2}`,
		`\boxed{5} and again $\boxed{ 5 }$`: "5", `\boxed{5}\text{ cm}`: `5\text{ cm}`, "The number of bad workers needed is \\boxed{3}.": "3",
		`\boxed{28}\%`: `28\text{ %}`, `\boxed{28} percent`: `28\text{ percent}`, `The text has \\boxed{\\frac{1}{2}}.`: `\\frac{1}{2}`,
		"Final Answer: The final answer is $5$. I hope it is correct.": "$5$", "Answer: Thus, the answer is 6.": "6", "Answer: a": "a",
		`$$\boxed{1} \quad \text{and} \quad \boxed{2}$$`: "1, 2", `\boxed{1}, \boxed{2} and \boxed{3}`: "1, 2, 3", `\boxed{1}, \boxed{1}`: "1", `\boxed{x=1} und \boxed{y=2}`: "x=1, y=2",
		`\boxed{1}. And \boxed{2}`: "", `\boxed{1} not \boxed{2}`: "", `\boxed{1} \boxed{2}`: "", `\boxed{1} and 3 \boxed{2}`: "", `\boxed{1} and \boxed{2} million`: "", `not \boxed{1} and \boxed{2}`: "",
		`\boxed{5} or \boxed{6}`: "", `2\boxed{5}`: "", `\boxed{5}^2`: "", `\boxed{5}!`: "", `\sqrt{\boxed{5}}`: "", `\frac{\boxed{1}}{2}`: "", `\frac{1}{\boxed{2}}`: "", `x^{\boxed{2}}`: "", `(\boxed{2}, 3)`: "", `\boxed{5} million`: "", `\boxed{5} is wrong`: "",
		`The answer is not \boxed{5}.`: "", `\boxed{5} = 6`: "", "3 - \\boxed{5}": "", `+\boxed{5} - 2`: "", "": "",
	} {
		j := newTestMathJudge(t, `{"type": "math"}`, "How many bad workers must I find?")
		got, reason, _ := j.stated(reply, false)
		if want == "" && reason == "" || want != "" && !mathmatch.Same(got.Value, want) {
			t.Errorf("%s states %q (%s), want %q", reply, got.Value, reason, want)
		}
	}
}

// newTestMathJudge makes a judge of a row whose answer is 5.
func newTestMathJudge(t *testing.T, match, question string) *mathJudge {
	t.Helper()
	j, err := newMathJudge(newTestKey(t, `["5"]`, "", match, question), []string{"5"}, mathmatch.New(family.Resources{}), family.Case{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestLongSentences reads sentences with as many links and as much typesetting as fit into
// a line. What a sentence may cost once, it may not cost for each of them.
func TestLongSentences(t *testing.T) {
	t.Parallel()
	j := newTestMathJudge(t, `{"type": "math"}`, "")
	for _, n := range []int{compare.MaxSentence / 8, 1 << 14} {
		if got, _, _ := j.stated(strings.Repeat("is *a* _", n), false); got.Value == "5" {
			t.Errorf("%d times: it states %q", n, got.Value)
		}
	}
}

// TestSilentExpressions: a judge may read the expression of prose. What a mark leads to, or
// a line says, is stated.
func TestSilentExpressions(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]bool{
		`\frac{1}{2}`: false, `It is $\frac{1}{2}$.`: false, "Answer: nothing of what was said above, and of all that there is to say about it": false, `\boxed{5} or \boxed{6}`: false, "": false,
		"I threw the two coins for a long while, and of all of those throws $\\frac{1}{2}$ came out as asked, give or take.": true,
	} {
		j := newTestMathJudge(t, `{"type": "math", "extract": "judge"}`, "How many bad workers must I find?")
		if got := j.Silent(reply); got != want {
			t.Errorf("%q is silent: %t, want %t", reply, got, want)
		}
	}
}
