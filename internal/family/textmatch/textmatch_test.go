package textmatch_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/family/textmatch"
)

func TestNormalize(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", ""},
		{"only edges", " \t\"'`.,;: ", ""},
		{"case and space", "  Denver \u00a0\n Broncos. ", "denver broncos"},
		{"quotes", "\"'`x`'\"", "x"},
		{"inner punctuation stays", "a.b,c", "a.b,c"},
		{"dotted capital I", "İSTANBUL", "i\u0307stanbul"},
		{"sharp s stays", "STRAßE", "straße"},
		{"sigma is one letter", "ΟΔΟΣ οδος", "οδοσ οδοσ"},
		{"decomposed is composed", "e\u0301", "é"},
		{"a mark only the small letter composes with", "H\u0331", "\u1e96"},
		{"zero width stays", "Par\u200bis", "par\u200bis"},
		{"full width stays", "Ｃ", "ｃ"},
		{"ligature stays", "ﬁn", "ﬁn"},
		{"cyrillic stays", "Раris", "раris"},
		{"separators are space", "a\x1cb", "a b"},
		{"sign stays", "-5", "-5"},
		{"symbols stay", "C++", "c++"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := textmatch.Normalize(tt.in); got != tt.want {
				t.Errorf("Normalize(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestNormalizeIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once := textmatch.Normalize(rapid.String().Draw(t, "text"))
		if twice := textmatch.Normalize(once); twice != once {
			t.Fatalf("%q became %q", once, twice)
		}
		if strings.TrimSpace(once) != once {
			t.Fatalf("%q has space at an end", once)
		}
	})
}

// TestNormalizeKeepsAlphabets checks for every letter beyond ASCII that it does
// not become an ASCII letter, except where Unicode says that it is one.
func TestNormalizeKeepsAlphabets(t *testing.T) {
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		if !unicode.IsLetter(r) {
			continue
		}
		got := textmatch.Normalize(string(r))
		if len(got) == 1 && r != '\u212a' { // the Kelvin sign is canonically K
			t.Errorf("%U became %q", r, got)
		}
	}
}

func TestLines(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"none", " \n\t\r\n", nil},
		{"trimmed", " a  b \r\n\n c", []string{"a b", "c"}},
		{"every break", "a\vb\fc\x1cd\x1de\x1ef\u0085g\u2028h\u2029i", strings.Split("abcdefghi", "")},
		{"fences", "```\nC\n```", []string{"C"}},
		{"a fence with a word is a line", "```text\nC", []string{"```text", "C"}},
		{"two backticks are a line", "a\n``", []string{"a", "``"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := textmatch.Lines(tt.in)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Lines (-want +got):\n%s", diff)
			}
			last := ""
			if len(tt.want) > 0 {
				last = tt.want[len(tt.want)-1]
			}
			if got := textmatch.LastLine(tt.in); got != last {
				t.Errorf("LastLine = %q, want %q", got, last)
			}
		})
	}
}

func TestExcerpt(t *testing.T) {
	exact := strings.Repeat("x", textmatch.MaxExcerpt)
	if got := textmatch.Excerpt(" " + exact + "\n"); got != exact {
		t.Errorf("a text of the greatest length was changed to %d bytes", len(got))
	}
	for _, unit := range []string{"x", "é", "語", "😀"} {
		got := textmatch.Excerpt(strings.Repeat(unit, textmatch.MaxExcerpt+1))
		if len(got) > textmatch.MaxExcerpt || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("excerpt of %q has %d bytes and ends in %q", unit, len(got), got[len(got)-4:])
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "a\r\nb", "```\n\n", "\u2028x\u0085", "e\u0301\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "")
		lines, last := textmatch.Lines(s), textmatch.LastLine(s)
		if len(lines) == 0 && last != "" || len(lines) > 0 && lines[len(lines)-1] != last {
			t.Fatalf("LastLine(%q) = %q, Lines end differently: %q", s, last, lines)
		}
		for _, line := range lines {
			if line == "" || textmatch.Collapse(line) != line {
				t.Fatalf("line %q of %q is blank or not collapsed", line, s)
			}
		}
	})
}
