package textmatch_test

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/family/textmatch"
)

func TestParseNumber(t *testing.T) {
	tests := []struct {
		in   string
		want string // as a fraction; "" is no number
	}{
		{"144", "144"},
		{" \"1,450,000\". ", "1450000"},
		{"-10", "-10"},
		{"−3", "-3"},
		{"+.5", "1/2"},
		{"1e5", "100000"},
		{"1.41E-2", "141/10000"},
		{"$5", "5"},
		{"-$5", "-5"},
		{"$-5", "-5"},
		{"5€", "5"},
		{"100%", "100"},
		{"50 %", "50"},
		{"007", "7"},
		{"", ""},
		{"-", ""},
		{"5 km", ""},
		{"1/2", ""},
		{"1,44", ""},
		{"0,144", ""},
		{"1,500,00", ""},
		{"3..5", ""},
		{"NaN", ""},
		{"Infinity", ""},
		{"0x10", ""},
		{"1_000", ""},
		{"--5", ""},
		{"5²", ""},
		{"٥", ""},
		{"1e401", ""},
		{"1e-401", ""},
		{"1e99999999999999999999", ""},
		{strings.Repeat("1", 400), strings.Repeat("1", 400)},
		{strings.Repeat("1", 401), ""},
	}
	for _, tt := range tests {
		n, ok := textmatch.ParseNumber(tt.in)
		got := ""
		if ok {
			got = n.Rat().RatString()
		}
		if got != tt.want {
			t.Errorf("ParseNumber(%.40q) = %.40q, want %.40q", tt.in, got, tt.want)
		}
	}
}

func TestFindNumber(t *testing.T) {
	tests := []struct {
		in   string
		want textmatch.Finding
	}{
		{"no digits", textmatch.NoNumber},
		{"", textmatch.NoNumber},
		{"NaN", textmatch.NoNumber},
		{"about 42 apples", textmatch.OneNumber},
		{"**42**.", textmatch.OneNumber},
		{"x=42!", textmatch.OneNumber},
		{"42;", textmatch.OneNumber},
		{"\\boxed{1,500}", textmatch.OneNumber},
		{"it costs $42", textmatch.OneNumber},
		{"42 or 43", textmatch.SeveralNumbers},
		{"1,44", textmatch.SeveralNumbers},
		{"42±1e9", textmatch.SeveralNumbers},
		{"1;500", textmatch.SeveralNumbers},
		{"4\u200b2", textmatch.SeveralNumbers},
		{"42 ½", textmatch.SeveralNumbers},
		{"42²", textmatch.SeveralNumbers},
		{"42 ٤", textmatch.SeveralNumbers},
		{"10^42", textmatch.SeveralNumbers},
		{"42km", textmatch.UnclearNumber},
		{"H42", textmatch.UnclearNumber},
		{"4\u0336", textmatch.UnclearNumber},
		{"42_", textmatch.UnclearNumber},
		{"%42", textmatch.UnclearNumber},
		{"^42", textmatch.UnclearNumber},
		{"42/", textmatch.UnclearNumber},
		{"x-42", textmatch.UnclearNumber},
		{"- 42", textmatch.UnclearNumber},
		{"--42", textmatch.UnclearNumber},
		{"-$ 42", textmatch.UnclearNumber},
		{"+ $ 42", textmatch.UnclearNumber},
		{"all-in: $ 42", textmatch.OneNumber},
		{"– 42", textmatch.UnclearNumber},
		{"— $42", textmatch.UnclearNumber},
		{"˗42", textmatch.UnclearNumber},
		{"˗ 42", textmatch.UnclearNumber},
		{"⁻ 42", textmatch.UnclearNumber},
		{"well-known – 'tis 42", textmatch.OneNumber},
		{"42 – so be it", textmatch.OneNumber},
		{"–42", textmatch.UnclearNumber},
		{"±42", textmatch.UnclearNumber},
		{"√42", textmatch.UnclearNumber},
		{"42+", textmatch.UnclearNumber},
		{"..42", textmatch.UnclearNumber},
		{"[1,500]", textmatch.UnclearNumber},
		{"[1,500", textmatch.UnclearNumber},
		{"1,500]", textmatch.UnclearNumber},
		{"[1500]", textmatch.OneNumber},
		{"not 42", textmatch.UnclearNumber},
		{"isn’t 42", textmatch.UnclearNumber},
		{"isnʼt 42", textmatch.UnclearNumber},
		{"isn＇t 42", textmatch.UnclearNumber},
		{"itʼs 42", textmatch.OneNumber},
		{"\u202e42", textmatch.UnclearNumber},
		{"42\u200b", textmatch.UnclearNumber},
		{"$42€", textmatch.UnclearNumber},
		{"$ 42 in €", textmatch.UnclearNumber},
		{"42e999", textmatch.UnclearNumber},
	}
	for _, tt := range tests {
		if _, got := textmatch.FindNumber(tt.in); got != tt.want {
			t.Errorf("FindNumber(%q) found %d, want %d", tt.in, got, tt.want)
		}
	}
}

func TestNumberMatches(t *testing.T) {
	tests := []struct {
		gold, got, tolerance string
		want                 bool
	}{
		{"5", "5.0", "", true},
		{"5", "-5", "", false},
		{"-5", "5", "", false},
		{"5", "$5", "", true},
		{"$5", "5", "", true},
		{"$5", "€5", "", false},
		{"50", "50%", "", false},
		{"50%", "50", "", true},
		{"50%", "50%", "", true},
		{"3", "2.9", "1/10", true},
		{"3", "3.1", "1/10", true},
		{"3", "3.1000000000000000000001", "1/10", false},
		{"5", "5.000000000001", "0", false},
		{"1e400", "1e400", "0", true},
	}
	for _, tt := range tests {
		gold, ok := textmatch.ParseNumber(tt.gold)
		got, finding := textmatch.FindNumber(tt.got)
		if !ok || finding != textmatch.OneNumber {
			t.Fatalf("%q or %q is no number", tt.gold, tt.got)
		}
		var tolerance *big.Rat
		if tt.tolerance != "" {
			tolerance, _ = new(big.Rat).SetString(tt.tolerance)
		}
		if matched := gold.Matches(got, tolerance); matched != tt.want {
			t.Errorf("gold %s, got %s within %s: %v, want %v", tt.gold, tt.got, tt.tolerance, matched, tt.want)
		}
	}
}

// TestNumbersAgree checks that what is written by math/big is read back
// exactly, whichever of the two readers sees it.
func TestNumbersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.IntRange(0, 12).Draw(t, "digits")
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
		want := new(big.Rat).SetFrac(big.NewInt(rapid.Int64().Draw(t, "n")), scale)
		text := want.FloatString(digits)
		parsed, ok := textmatch.ParseNumber(text)
		found, finding := textmatch.FindNumber("so it is " + text + ".")
		if !ok || finding != textmatch.OneNumber || parsed.Rat().Cmp(want) != 0 || found.Rat().Cmp(want) != 0 {
			t.Fatalf("%s was read as %v (%v) and %v (%d)", text, parsed, ok, found, finding)
		}
	})
}

func FuzzFindNumber(f *testing.F) {
	for _, s := range []string{"42", "-$1,500.5e3%", "4 2", "x42", "٤", "[1,500]", ".5.", "1e9999", "$ -", "−5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = textmatch.NFC(strings.ToValidUTF8(s, ""))
		n, finding := textmatch.FindNumber(s)
		if digit := strings.ContainsAny(s, "0123456789"); !digit && finding == textmatch.OneNumber {
			t.Fatalf("%q holds a number without a digit", s)
		}
		if finding != textmatch.OneNumber {
			return
		}
		if bits := n.Rat().Num().BitLen() + n.Rat().Denom().BitLen(); bits > 8000 {
			t.Fatalf("%q became a number of %d bits", s, bits)
		}
		if _, again := textmatch.FindNumber(s + " 7"); again != textmatch.SeveralNumbers {
			t.Fatalf("a second number behind %q was not seen: %d", s, again)
		}
	})
}
