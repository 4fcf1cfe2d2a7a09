package textmatch_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

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
