package number_test

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
)

func TestParse(t *testing.T) {
	tests := []struct {
		in   string
		want string // as a fraction; "" is not a number
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
		n, ok := number.Parse(tt.in)
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
		want number.Finding
	}{
		{"no digits", number.None},
		{"", number.None},
		{"NaN", number.None},
		{"about 42 apples", number.Unclear},
		{"**42**.", number.Unclear},
		{"x=42!", number.Unclear},
		{"42 km!", number.One},
		{"42;", number.One},
		{"\\boxed{1,500}", number.Unclear},
		{"it costs $42", number.One},
		{"42 or 43", number.Several},
		{"1,44", number.Several},
		{"42±1e9", number.Several},
		{"1;500", number.Several},
		{"4\u200b2", number.Several},
		{"42 ½", number.Several},
		{"42²", number.Several},
		{"42 ٤", number.Several},
		{"10^42", number.Several},
		{"42km", number.One},
		{"42m", number.Unclear},
		{"H42", number.Unclear},
		{"4\u0336", number.Unclear},
		{"42_", number.Unclear},
		{"%42", number.Unclear},
		{"^42", number.Unclear},
		{"42/", number.Unclear},
		{"x-42", number.Unclear},
		{"- 42", number.Unclear},
		{"--42", number.Unclear},
		{"-$ 42", number.Unclear},
		{"+ $ 42", number.Unclear},
		{"all-in: $ 42", number.One},
		{"– 42", number.Unclear},
		{"— $42", number.Unclear},
		{"˗42", number.Unclear},
		{"˗ 42", number.Unclear},
		{"⁻ 42", number.Unclear},
		{"well-known – 'tis 42", number.One},
		{"42 – so be it", number.One},
		{"–42", number.Unclear},
		{"±42", number.Unclear},
		{"√42", number.Unclear},
		{"42+", number.Unclear},
		{"..42", number.Unclear},
		{"[1,500]", number.Unclear},
		{"[1,500", number.Unclear},
		{"1,500]", number.Unclear},
		{"[1500]", number.One},
		{"not 42", number.Unclear},
		{"isn’t 42", number.Unclear},
		{"isnʼt 42", number.Unclear},
		{"isn＇t 42", number.Unclear},
		{"itʼs 42", number.One},
		{"\u202e42", number.Unclear},
		{"42\u200b", number.Unclear},
		{"$42€", number.Unclear},
		{"$ 42 in €", number.Unclear},
		{"42e999", number.Unclear},
	}
	for _, tt := range tests {
		if _, got := number.NewQuestion("", "").FindNumber(tt.in, false); got != tt.want {
			t.Errorf("FindNumber(%q) found %d, want %d", tt.in, got, tt.want)
		}
	}
}

// TestTextNextToNumbers: what stands next to a number makes it unclear, belongs to it, or is
// a unit or noun.
func TestTextNextToNumbers(t *testing.T) {
	const question = "Tom earns 300 dollars in 7 days and eats 2 apples more than Ann. How many does she have?"
	tests := []struct{ in, want string }{ // the number as a fraction, or ""
		{"minus 25", "-25"}, {"negative 25", "-25"}, {"-25", "-25"}, {"−25", "-25"}, {"-$25", "-25"}, {"minus $25", "-25"},
		{"minus -25", ""}, {"- 25", ""}, {"–25", ""}, {"a negative total of 25", "-25"},
		{"25 million", ""}, {"25 thousand", ""}, {"25 dozen", ""}, {"25 bn", ""}, {"25 k", ""}, {"25 M", ""}, {"25M", ""}, {"25k", ""},
		{"25 hundred", ""}, {"twenty 25", ""}, {"25 and a half", ""}, {"25 and one half", ""}, {"25 and a bit", ""}, {"25 point five", ""},
		{"zero point 25", ""}, {"point 25", ""}, {"25 squared", ""}, {"25 cubed", ""}, {"25²", ""}, {"25^2", ""}, {"25 ^ 2", ""}, {"25!", ""},
		{"25 !", ""}, {"25 factorial", ""}, {"sqrt(25)", ""}, {"√25", ""}, {"the square root of 25", ""}, {"log 25", ""}, {"f(25)", ""},
		{"half of 25", ""}, {"twice 25", ""}, {"a third of 25", ""}, {"one over 25", ""}, {"25 doubled", ""}, {"25 percentiles", "25"},
		{"> 25", ""}, {">25", ""}, {"≥ 25", ""}, {"x ≠ 25", ""}, {"x != 25", ""}, {"x >= 25", ""}, {"≈ 25", ""}, {"~25", ""}, {"~~25~~", ""},
		{"less than 25", ""}, {"more than 25", ""}, {"at least 25", ""}, {"at most 25", ""}, {"25 at most", ""}, {"no more than 25", ""},
		{"over 25", ""}, {"under 25", ""}, {"up to 25", ""}, {"it adds up to 25", "25"}, {"between 25", ""}, {"25 or more", ""}, {"25+", ""},
		{"25 plus", ""}, {"about 25", ""}, {"roughly 25", ""}, {"25-ish", ""}, {"25 is wrong", ""}, {"anything but 25", ""}, {"not 25", ""},
		{"hardly 25", ""}, {"without 25", ""}, {"25 or twenty-six", ""}, {"either 25", ""}, {"maybe 25", ""}, {"if even 25", ""}, {"25?", ""},
		{"25 * x", ""}, {"25 x", ""}, {"25x", ""}, {"25 - x", ""}, {"x + 25", ""}, {"25 + x", ""}, {"25/x", ""}, {"/25", ""}, {"25 mod", ""},
		{"25 in base eight", ""}, {"25 26", ""}, {"25, 26", ""}, {"25-26", ""}, {"25 to 26", ""}, {"25 (26)", ""}, {"|25|", ""},
		{"25 km", "25"}, {"25km", "25"}, {"25 cm²", "25"}, {"25 m^2", "25"}, {"25 m/s²", "25"}, {"25/hour", "25"}, {"25 kg·m", ""},
		{"25 square feet", "25"}, {"25 °C", "25"}, {"25°", "25"}, {"US$25", "25"}, {"25 dollars", "25"}, {"25 apples and pears", "25"},
		{"25 dollars every 7 days", "25"}, {"25 in seven days", "25"}, {"25 per 7 days", "25"}, {"25 dollars every 8 days", ""},
		{"25 of the 300", "25"}, {"25 and 7 days", ""}, {"in 7 days 25", ""}, {"25 more apples", "25"}, {"25 fewer apples", ""},
		{"x = 25", "25"}, {"2 = 25", ""}, {"total: 25", "25"}, {"(25)", "25"}, {"**25**", "25"}, {"25 – so be it", "25"}, {"25-minute", "25"},
		{"1,234", "1234"}, {"1.5e3", "1500"}, {"25.0 kg.", "25"},
	}
	q := number.NewQuestion(question, "")
	for _, tt := range tests {
		got := ""
		if n, finding := q.FindNumber(textmatch.Plain(tt.in), false); finding == number.One {
			got = n.Rat().RatString()
		}
		if got != tt.want {
			t.Errorf("%q states %q, want %q", tt.in, got, tt.want)
		}
	}
	for _, in := range []string{"about 25", "≈ 25", "~25", "25 approximately"} {
		if _, finding := q.FindNumber(in, true); finding != number.One {
			t.Errorf("%q states nothing where an approximation is a statement", in)
		}
	}
	asked := number.NewQuestion("How many millions, and how many dozen?", "")
	for _, in := range []string{"25 million", "25 dozen"} {
		if _, finding := asked.FindNumber(in, false); finding != number.One {
			t.Errorf("%q states nothing where millions are asked for", in)
		}
	}
}

func TestNumberMatches(t *testing.T) {
	tests := []struct {
		gold, got, tolerance, question string
		want                           bool
	}{
		{"5", "5.0", "", "", true},
		{"5", "-5", "", "", false},
		{"-5", "5", "", "", false},
		{"-5", "minus 5", "", "", true},
		{"5", "$5", "", "", false},
		{"5", "$5", "", "How many apples?", false},
		{"5", "$5", "", "How much does it cost?", true},
		{"5", "€5", "", "How much does it cost?", true},
		{"5", "US$5", "", "How many dollars is it?", true},
		{"5", "€5", "", "How many dollars is it?", false},
		{"5", "€5", "", "He has $3 and finds $2. What has he?", false},
		{"5", "$5", "", "He has $3 and finds $2. What has he?", true},
		{"$5", "5", "", "", true},
		{"$5", "€5", "", "", false},
		{"50", "50%", "", "", false},
		{"50", "50%", "", "How many apples are 50% of 100?", false},
		{"50", "50 percent", "", "How many apples are 50% of 100?", false},
		{"50", "50%", "", "What percentage is left?", true},
		{"50", "50 per cent", "", "Of 80 apples 40 are eaten. How much is that, as a percentage?", true},
		{"50%", "50", "", "", true},
		{"50%", "50%", "", "", true},
		{"3", "2.9", "1/10", "", true},
		{"3", "3.1", "1/10", "", true},
		{"3", "3.1000000000000000000001", "1/10", "", false},
		{"5", "5.000000000001", "0", "", false},
		{"1e400", "1e400", "0", "", true},
	}
	for _, tt := range tests {
		q := number.NewQuestion(tt.question, "")
		gold, ok := number.Parse(tt.gold)
		got, finding := q.FindNumber(tt.got, false)
		if !ok || finding != number.One {
			t.Fatalf("%q or %q is not a number", tt.gold, tt.got)
		}
		var tolerance *big.Rat
		if tt.tolerance != "" {
			tolerance, _ = new(big.Rat).SetString(tt.tolerance)
		}
		if matched := gold.Matches(got, tolerance, q); matched != tt.want {
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
		parsed, ok := number.Parse(text)
		found, finding := number.NewQuestion("", "").FindNumber("so it is "+text+".", false)
		if !ok || finding != number.One || parsed.Rat().Cmp(want) != 0 || found.Rat().Cmp(want) != 0 {
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
		q := number.NewQuestion("", "")
		n, finding := q.FindNumber(s, false)
		if digit := strings.ContainsAny(s, "0123456789"); !digit && finding == number.One {
			t.Fatalf("%q holds a number without a digit", s)
		}
		if finding != number.One {
			return
		}
		if bits := n.Rat().Num().BitLen() + n.Rat().Denom().BitLen(); bits > 8000 {
			t.Fatalf("%q became a number of %d bits", s, bits)
		}
		if _, again := q.FindNumber(s+" 7", false); again != number.Several {
			t.Fatalf("a second number behind %q was not seen: %d", s, again)
		}
	})
}
