package mathmatch

import (
	"testing"

	"go.uber.org/goleak"

	"securebench/internal/family"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compare compares an answer with one gold answer.
func (l lab) compare(t *testing.T, gold, answer string) Result {
	t.Helper()
	r, err := l.Compare(t.Context(), l.c, key(t, gold), answer)
	if err != nil {
		t.Fatalf("%s, %s: %v", gold, answer, err)
	}
	return r
}

// compares: equal expressions in other forms pass, and near ones do not.
func (l lab) compares(t *testing.T) {
	for _, tt := range []struct {
		gold, answer string
		equal        bool
	}{
		{`\frac{3}{4}`, `0.75`, true}, {`\frac{3}{4}`, `3/4`, true}, {`\frac{3}{4}`, `\dfrac34`, true}, {`\frac{3}{4}`, `\frac{4}{3}`, false},
		{`2\sqrt{3}`, `2√3`, true}, {`2\sqrt{3}`, `2*sqrt(3)`, true}, {`2\sqrt{3}`, `\sqrt{12}`, true}, {`2\sqrt{3}`, `\sqrt{3}`, false},
		{`2\sqrt{3}`, `2\sqrt{3} \approx 3.46`, true}, {`x^2+2x+1`, `(x+1)^2`, true}, {`x^2+2x+1`, `x² + 2x + 1`, true}, {`x^2+2x+1`, `x^2+2x`, false},
		{`(-\infty, 3]`, `(−∞, 3]`, true}, {`(-\infty, 3]`, `x \in (-\infty, 3]`, true}, {`(-\infty, 3]`, `(-\infty, 3)`, false},
		{`(3,-2)`, `\left(3, -2\right)`, true}, {`(3,-2)`, `x = 3, y = -2`, true}, {`(3,-2)`, `(-2,3)`, false},
		{`\{11,12\}`, `12, 11`, true}, {`\{11,12\}`, `x=11, x=12`, true}, {`\{11,12\}`, `11\text{ and }12`, true}, {`\{11,12\}`, `11`, false},
		{`\begin{pmatrix}1\\2\end{pmatrix}`, `\begin{bmatrix} 1 \\ 2 \end{bmatrix}`, true}, {`\begin{pmatrix}1\\2\end{pmatrix}`, `\begin{pmatrix}1\\3\end{pmatrix}`, false},
		{`y=2x+1`, `2x+1=y`, true}, {`y=2x+1`, `y=2x`, false}, {`x \leq 3`, `3 \geq x`, true}, {`x \leq 3`, `x < 3`, false},
		{`\text{yes}`, `\text{Yes}`, true}, {`\text{(B)}`, `(B)`, true}, {`\text{yes}`, `\text{no}`, false},
		{`3+4i`, `4i+3`, true}, {`\emptyset`, `∅`, true}, {`\sin x`, `\cos x`, false}, {`12\frac{3}{5}`, `12 3/5`, true},
		{`900,\!000,\!000`, `900{,}000{,}000`, true}, {`5`, `x = 5`, true}, {`120_8`, `120_{8}`, true}, {`5`, `AB = 5`, true}, {`\frac{3}{4}`, `x = \frac{6}{8} = \frac{3}{4}`, true}, {`5`, `x = 4 = 5`, false}, {`1000`, `1 000`, true}, {`10^{-3}`, `0.001`, true},
		// Surface forms: decimal commas, thousands, backslashes twice.
		{`1000.99`, `1000,99`, true}, {`1000.99`, `-1000,99`, false}, {`1234567.5`, `1.234.567,5`, true}, {`1.234`, `1,234`, false}, {`1234`, `1,234`, true}, {`14916`, `14 {, }916`, true},
		{`(\frac{1}{5},\frac{1}{6})`, `\\left(\\frac{1}{5},\\frac{1}{6}\\right)`, true}, {`\begin{pmatrix}1\\2\end{pmatrix}`, `\\begin{pmatrix}1\\\\2\\end{pmatrix}`, true},
		{`(\frac{1}{5},\frac{1}{6})`, `\\left(\\frac{1}{6},\\frac{1}{5}\\right)`, false},
		// What an accepted equation or inequality is about may be left out.
		{`S_{MBCN}:S=7:32`, `7:32`, true}, {`S_{MBCN}:S=7:32`, `32:7`, false}, {`\frac{NO}{BO}=\frac{1}{\sqrt{6}}`, `\frac{1}{\sqrt{6}}`, true}, {`\frac{NO}{BO}=\frac{1}{\sqrt{6}}`, `\sqrt{6}`, false},
		{`AB=4,CD=5`, `4, 5`, true}, {`AB=4,CD=5`, `(4, 5)`, true}, {`AB=4,CD=5`, `5, 4`, false}, {`AB=4,CD=5`, `4, 5, 6`, false}, {`AB=4,CD=5`, `4`, false},
		{`a_3=2, a_{37}=19`, `a_{37}=19, a_3=2`, true}, {`a_3=2, a_{37}=19`, `a_{37}=2, a_3=19`, false},
		{`-2\le x\le 7`, `[-2,7]`, true}, {`-2\le x\le 7`, `x \in [-2,7]`, true}, {`-2\le x\le 7`, `(-2,7)`, false}, {`-2\le x\le 7`, `[-2,8]`, false}, {`7 > x \ge -2`, `[-2,7)`, true},
		{`x>3`, `(3,\infty)`, true}, {`3>x`, `(-\infty,3)`, true}, {`x>3`, `(-\infty,3)`, false}, {`x>3`, `[3,\infty)`, false}, {`0<f(x)<1`, `(0,1)`, true}, {`1 \le |z| \le 2`, `[1,2]`, false},
	} {
		r := l.compare(t, tt.gold, tt.answer)
		if r.Index == 0 != tt.equal {
			t.Errorf("%s and %s: %+v, want equal %v", tt.gold, tt.answer, r, tt.equal)
		}
	}
}

// TestRefused: what the library accepts, and no careful grader does, is refused before
// any sandbox: there is none here. The honest twin differs in what the rule is about.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ question, gold, answer string }{
		{"How many people?", "120", `120\text{ million}`}, {"How many people?", "120", `120 \text{million people}`}, {"What is it?", "5", `5\text{ is wrong}`},
		{"What is it?", "5", `\neq 5`}, {"What is it?", "5", `x \ne 5`}, {"What is it?", "5", `\approx 5`}, {"What is it?", "5", `~5`}, {"What is it?", "5", `\not= 5`},
		{"In which year?", "1989", `1989\text{ BC}`}, {"In which year?", "1989", `1989 BC`}, {"What is it?", "3", `5=3`}, {"What is it?", "3", `2+2=3`}, {"What is it?", "3", `1 2`}, {"What is it?", "3", `\boxed{1 2}`},
		{"What is it?", `\{1,2\}`, `(1,2)`}, {"What is it?", `(1,2)`, `\{1,2\}`}, {"What is it?", `(1,2)`, `[1,2]`}, {"What is it?", "120", `120\%`}, {"What is it?", "120", `120 percent`},
		{"How long is it in meters?", "5", `5\text{ km}`}, {"What is it?", "120", "120 万"}, {"What is it?", "5", `\text{not } 5`}, {"What is it?", "5", `5 or 6`}, {"What is it?", "5", `\{5\}`}, {"What is it?", "x", "5"},
		{"What is it?", "5", "5\n6"}, {"What is it?", "5", "5?"}, {"What is it?", "5", `\operatorname{eval}(5)`}, {"What is it?", "5", `\input{5}`}, {"What is it?", "(-2,3)", `(-2, 3`},
		{"What is it?", "5", `5\text{ mn}`}, {"What is it?", "5", `5_{\text{BC}}`}, {"What is it?", "3", `x=3, y=4`}, {"What is it?", "3:4", `3/4`}, {"What is it?", "120", `120_8`}, {"What is it?", "120_8", `120`}, {"What is it?", "120_8", `120_{9}`}, {"What is it?", "120", `120 \ldots`}, {"How many people?", "120", `120^\circ`}, {"How many people?", "120", `\$120`}, {"Expand (x+1)(x-3).", "x^2-2x-3", "Expand (x+1)(x-3)."}, {"How many cups?", "5", "cups 5"}, {"How many cups?", "5", `3\text{ cups }5`}, {"What is it?", "3/4", `3:4`},
		{"What is it?", "0,111", `111`}, {"What is it?", "0,111", `0.111`}, {"What is it?", "3.5", `3,5,6`}, {"What is it?", `[-2,7]`, `-2\le x\le 7`}, {"What is it?", `(0,1)`, `0<x<1`}, {"What is it?", `4, 5`, `(4, 5)`},
	} {
		k, err := NewKey([]string{tt.gold}, answer.Ask(tt.question, "", vocabulary.Every))
		if err != nil {
			t.Errorf("%s: %v", tt.gold, err)
			continue
		}
		c := New(family.Resources{})
		r, err := c.Compare(t.Context(), family.Case{}, k, tt.answer)
		if err != nil || r.Index >= 0 || r.Message == "" {
			t.Errorf("%s for %s: %+v, %v", tt.answer, tt.gold, r, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// overruns: a candidate that makes the oracle compute for ever fails, and neither
// harms the next.
func (l lab) overruns(t *testing.T) {
	for _, answer := range []string{`(10^9)!`, `9^{9^9}`} {
		if r := l.compare(t, "5", answer); r.Index >= 0 {
			t.Errorf("%s: %+v", answer, r)
		}
		if r := l.compare(t, "5", "5"); r.Index != 0 {
			t.Errorf("after %s: %+v", answer, r)
		}
	}
}
