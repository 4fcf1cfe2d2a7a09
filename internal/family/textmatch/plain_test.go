package textmatch_test

import (
	"testing"

	"securebench/internal/family/textmatch"
)

func TestPlain(t *testing.T) {
	tests := []struct{ in, want string }{
		{"**a** *b* __c__ `d` _e_", "a b c d e"},
		{"***a***", "a"},
		{"2*3*4", "2*3*4"},
		{"snake_case_name", "snake_case_name"},
		{"25*", "25*"},
		{"* 25", "* 25"},
		{`\text{a b} \mathrm{km}`, "a b km"},
		{`\boxed{\text{(B) x}}`, "(B) x"},
		{`\(B\)`, "B"},
		{`$x = 25$.`, "x = 25."},
		{`$25 and $30`, "$25 and $30"},
		{`$5`, "$5"},
		{`\$5`, "$5"},
		{`$\$5$`, "$5"},
		{`25\%`, "25%"},
		{`1\,234 1{,}234 70\ 000`, "1,234 1,234 70 000"},
		{`12\,cm`, "12 cm"},
		{`x \neq 25`, "x ≠ 25"},
		{`\sqrt{25}`, "√{25}"},
		{`\frac{1}{2} \dfrac{x}{3}`, "1/2 x/3"},
		{`\frac{1+1}{2}`, `\frac{1+1}{2}`},
		{`90^\circ`, "90°"},
		{`\cancel{25}`, `\cancel{25}`},
		{`C:\dir`, `C:\dir`},
		{`\é`, `\é`},
		{`\`, `\`},
	}
	for _, tt := range tests {
		if got := textmatch.Plain(tt.in); got != tt.want {
			t.Errorf("Plain(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}
