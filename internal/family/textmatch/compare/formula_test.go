package compare

import "testing"

// TestFormulas compares ways to write a formula, and formulas that are not the same.
func TestFormulas(t *testing.T) {
	same := map[string][]string{
		`2\sqrt{3}`:     {"2√3", "2*sqrt(3)", "$2\\sqrt{3}$", `2\sqrt3`, `x = 2\sqrt{3}`, `2\sqrt{3} \approx 3.46`},
		`\frac{3}{4}`:   {"3/4", `\dfrac{3}{4}`, `\frac{ 3 }{ 4 }`, `\(\frac34\)`},
		`(-\infty, 3]`:  {"(-∞, 3]", `(-\infty,3]`, `x \in (-\infty, 3]`, "(−∞, 3]", `\left(-\infty, 3\right]`},
		`x^2+2x+1`:      {"x^{2} + 2x + 1", "x² + 2x + 1", "y = x^2+2x+1"},
		`12\frac{3}{5}`: {"12 3/5"},
	}
	other := map[string][]string{
		`2\sqrt{3}`:     {`-2\sqrt{3}`, `\sqrt{12}`, `2\sqrt{3x}`, "2", `23`},
		`\sqrt{2x}`:     {`\sqrt{2}x`, "√2x"},
		`\frac{3}{4}`:   {"6/8", `-\frac{3}{4}`, "3:4"},
		`(-\infty, 3]`:  {`(-\infty, 3)`, `(-\infty, 3`, `[-\infty, 3]`},
		`12\frac{3}{5}`: {"123/5", `\frac{63}{5}`},
		`(3, -2)`:       {"(3, 2)", "(-2, 3)"},
	}
	for gold, stated := range same {
		for _, s := range stated {
			if !sameFormula(canonical(s), canonical(gold)) {
				t.Errorf("%s is not %s: %q and %q", s, gold, canonical(s), canonical(gold))
			}
		}
	}
	for gold, stated := range other {
		for _, s := range stated {
			if sameFormula(canonical(s), canonical(gold)) {
				t.Errorf("%s is %s: %q", s, gold, canonical(gold))
			}
		}
	}
}

// TestMoments reads dates and times of day.
func TestMoments(t *testing.T) {
	gold := parseDate("5 March 2024", "")
	for text, want := range map[string]bool{"March 5, 2024": true, "05.03.2024": true, "The 5th of March 2024": true, "2024-03-05": true, "2024年3月5日": true,
		"5 de marzo de 2024": true, "6 March 2024": false, "5 March 2023": false, "05/03/2024": false, "March 2024": false, "35 March 2024": false} {
		if d := parseDate(text, ""); (d == gold) != want {
			t.Errorf("%q is %+v", text, d)
		}
	}
	if d := parseDate("6/20/2019", "mdy"); d.month != 6 || d.day != 20 {
		t.Errorf("6/20/2019 is %+v", d)
	}
	for text, want := range map[string]bool{"5:30 p.m.": true, "17:30": true, "05:30 PM": true, "5:30": false, "5:30 AM": false, "17:30 PM": false, "25:10": false, "5": false} {
		if c := parseClock(text); (c != nil && *c == clock{17, 30, 0}) != want {
			t.Errorf("%q is %+v", text, c)
		}
	}
}
