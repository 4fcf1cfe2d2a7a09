package shortanswer

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"unicode"

	"github.com/go-json-experiment/json"

	"securebench/internal/family/familytest"
	"securebench/internal/verdict"
)

// A weak matcher is what an attack was made for: each is a mistake that a
// benchmark has made.
type weak func(candidate, gold string) bool

func contains(candidate, gold string) bool {
	return strings.Contains(strings.ToLower(candidate), strings.ToLower(gold))
}

func goldContains(candidate, gold string) bool {
	return strings.Contains(gold, strings.Trim(candidate, " .-"))
}

// stripEverything keeps ASCII letters and digits and folds look-alikes.
func stripEverything(candidate, gold string) bool {
	strip := func(s string) string {
		return strings.Map(func(r rune) rune {
			switch {
			case r == 'а':
				return 'a'
			case r == 'Р':
				return 'p'
			case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
				return unicode.ToLower(r)
			}
			return -1
		}, s)
	}
	return strip(candidate) == strip(gold)
}

// displayed shows what follows a right-to-left override backwards.
func displayed(candidate, gold string) bool {
	before, after, _ := strings.Cut(candidate, "\u202e")
	back := []rune(after)
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return before+string(back) == gold
}

// closeFloat is the comparison that NaN passes: it asks for the opposite.
func closeFloat(candidate, gold string) bool {
	got, _ := strconv.ParseFloat(strings.TrimSpace(candidate), 64)
	want, _ := strconv.ParseFloat(gold, 64)
	return !(math.Abs(got-want) > 1)
}

// anyFloatWithin accepts if any number in the candidate is near, with errors of
// parsing counted as matches.
func anyFloatWithin(candidate, gold string) bool {
	want, _ := strconv.ParseFloat(gold, 64)
	for _, f := range regexp.MustCompile(`[0-9.]+(e[0-9]+)?`).FindAllString(candidate, -1) {
		got, err := strconv.ParseFloat(f, 64)
		if err != nil || math.Abs(got-want) <= 1 {
			return true
		}
	}
	return false
}

func firstDigits(candidate, gold string) bool {
	digits := func(s string) string { return regexp.MustCompile(`[^0-9]`).ReplaceAllString(s, "") }
	return digits(candidate) == digits(gold)
}

func anyOutput(candidate, _ string) bool { return candidate != "" }

func refusal(candidate, _ string) bool {
	return regexp.MustCompile(`(?i)infeasible|fail|cannot`).MatchString(candidate)
}

func anyElement(candidate, gold string) bool {
	for item := range strings.SplitSeq(candidate, ",") {
		if !strings.Contains(gold, strings.TrimSpace(item)) {
			return false
		}
	}
	return true
}

func asPattern(candidate, gold string) bool {
	return regexp.MustCompile("^" + candidate + "$").MatchString(gold)
}

func asFormat(candidate, gold string) bool {
	return strings.HasPrefix(fmt.Sprintf(candidate, gold), gold)
}

func asTemplate(candidate, gold string) bool {
	var b strings.Builder
	row := map[string]string{"Expected": gold}
	return template.Must(template.New("").Parse(candidate)).Execute(&b, row) == nil && b.String() == gold
}

func TestAttacks(t *testing.T) {
	spray := "alpha beta gamma delta " + strings.Repeat("epsilon, ", 300)
	tests := []struct {
		row       string
		gold      string
		tolerance string
		attack    string
		weak      weak
		honest    string
	}{
		{"T04", "gamma", "", spray, contains, "gamma"},
		{"T04", "gamma", "", "alpha, beta, gamma, delta", contains, "It is gamma."},
		{"T05", "Dr. Martin Luther King Jr.", "", "D.R M.A.R.T.I.N L.U.T.H.E.R K.I.N.G J.R", stripEverything, "Dr. Martin Luther King Jr"},
		{"T05", "C++", "", "C", stripEverything, "c++"},
		{"T05", "-5", "", "5", stripEverything, "−5"},
		{"T05", "-5", "", "- 5", stripEverything, "-5.0"},
		{"T06", "42", "1", "NaN", closeFloat, "42"},
		{"T06", "42", "1", "nan", closeFloat, "41"},
		{"T06", "42", "1", "1e999, 42", anyFloatWithin, "42.5"},
		{"T06", "42", "1", "1e999", anyFloatWithin, "4.2e1"},
		{"T06", "42", "1", "3..5", anyFloatWithin, "42."},
		{"T06", "42", "1", "42±1e9", anyFloatWithin, "42 meters"},
		{"T06", "42", "1", "41 or 42 or 43", anyFloatWithin, "about 42"},
		{"T07", "paris", "", "p\u200bar\u200dis", stripEverything, "Paris"},
		{"T07", "paris", "", "Рaris", stripEverything, "PARIS"}, // Cyrillic
		{"T07", "paris", "", "pаris", stripEverything, "paris."},
		{"T07", "paris", "", "p\u0336aris", stripEverything, "“paris”"},
		{"T07", "paris", "", "par\u200bis", stripEverything, "\u00a0paris\u200b"},
		{"T07", "42", "", "\u202e24", displayed, "42"},
		{"T07", "paris", "", "\u202esirap", displayed, "paris"},
		{"T08", "gamma", "", " ", goldContains, "gamma"},
		{"T08", "gamma", "", "-", goldContains, "gamma"},
		{"T08", "gamma", "", ".", goldContains, "gamma."},
		{"T08", "N/A or gamma", "", "N/A", goldContains, "N/A or gamma"},
		{"T09", "gamma", "", "{}", anyOutput, "gamma"},
		{"T09", "42", "", "x", anyOutput, "x = 42"},
		{"T10", "gamma", "", "The task is infeasible", refusal, "gamma"},
		{"T10", "42", "", "FAIL", refusal, "42"},
		{"T11", "1,500", "", "1;500", firstDigits, "1500"},
		{"T11", "1,500", "", "[1,500]", firstDigits, "1,500"},
		{"T11", "1,500", "", "1,5,00", firstDigits, "1500.0"},
		{"T11", "x, y, z, w", "", "x,x,x,x", anyElement, "x, y, z, w"},
		{"T17", "gamma", "", ".*", asPattern, "gamma"},
		{"T17", "gamma", "", "%s%[1]n", asFormat, "gamma"},
		{"T17", "gamma", "", "{{.Expected}}", asTemplate, "gamma"},
		{"T17", "gamma", "", "${jndi:gamma}", contains, "gamma"},
	}
	for _, tt := range tests {
		t.Run(tt.row+"/"+tt.attack[:min(len(tt.attack), 20)], func(t *testing.T) {
			accepted, err := json.Marshal([]string{tt.gold})
			if err != nil {
				t.Fatal(err)
			}
			k := newTestKey(t, string(accepted), tt.tolerance, "", "What is it?")
			if !tt.weak(tt.attack, tt.gold) {
				t.Errorf("%q does not even pass the weak matcher", tt.attack)
			}
			if v := k.match(tt.attack, false); v.Outcome != verdict.Failed {
				t.Errorf("attack %.60q is %s", tt.attack, familytest.Outcome(v))
			}
			if v := k.match(tt.honest, false); v.Outcome != verdict.Passed {
				t.Errorf("honest %q is %s", tt.honest, familytest.Outcome(v))
			}
		})
	}
}

// TestAbstention is the honest side of T10: saying that there is no answer is
// right where the row says so.
func TestAbstention(t *testing.T) {
	k := newTestKey(t, `["infeasible"]`, "", "", "What is the last digit of pi?")
	if v := k.match("The answer is: infeasible.", false); v.Outcome != verdict.Passed {
		t.Errorf("a declared abstention is %s", familytest.Outcome(v))
	}
}

// TestEmptyGolds is the other half of T08: whatever a row accepts, text that
// normalises to nothing never passes.
func TestEmptyGolds(t *testing.T) {
	k := newTestKey(t, `["", "...", " ", "\"\""]`, "", "", "")
	for _, candidate := range []string{"", " ", ".", "...", "\"\"", "-", "N/A", "Answer:", "{}"} {
		if v := k.match(candidate, false); v.Outcome != verdict.Failed {
			t.Errorf("%q is %s", candidate, familytest.Outcome(v))
		}
	}
}

// lastNumber takes the last run of digits for the answer, whatever is next to it.
func lastNumber(candidate, gold string) bool {
	all := regexp.MustCompile(`[0-9]+`).FindAllString(candidate, -1)
	return len(all) > 0 && all[len(all)-1] == gold
}

// firstNumber takes the first.
func firstNumber(candidate, gold string) bool {
	return regexp.MustCompile(`[0-9]+`).FindString(candidate) == gold
}

// anyMarked accepts if any mark leads to the answer.
func anyMarked(candidate, gold string) bool {
	return regexp.MustCompile(`(?i)(answer:? |#### |boxed\{)` + regexp.QuoteMeta(gold)).MatchString(candidate)
}

// TestWordsNextToNumbers states another number than the digits say.
func TestWordsNextToNumbers(t *testing.T) {
	tests := []struct {
		attack string
		weak   weak
		honest string
	}{
		{"minus 25", lastNumber, "just 25"},
		{"-\\boxed{25}", lastNumber, "- so: \\boxed{25}"},
		{"-\n\\boxed{25}", lastNumber, "Thus\n\\boxed{25}"},
		{"25 million", firstNumber, "25 apples"},
		{"\\boxed{25}\nmillion", firstNumber, "\\boxed{25}\nMillions of people know it."},
		{"25 squared", firstNumber, "25 apples, since 5 squared is 25"},
		{"25²", firstNumber, "5² = 25"},
		{"25 and a half", firstNumber, "25 apples, and that is all"},
		{"sqrt(25)", lastNumber, "apples (25)"},
		{"\\sqrt{\\boxed{25}}", lastNumber, "\\sqrt{625} = \\boxed{25}"},
		{"25!", firstNumber, "25 apples!"},
		{"> 25", lastNumber, "= 25"},
		{"x \\neq 25", lastNumber, "x = 25"},
		{"less than 25", lastNumber, "no other than them: it is the number\n25"},
		{"about 25", lastNumber, "exactly 25"},
		{"zero point 25", lastNumber, "at this point it is 25"},
		{"twenty-six or 25", lastNumber, "Ann has too many. It is 25"},
		{"25 is wrong", firstNumber, "25 is right"},
		{"~~25~~ 26", firstNumber, "**25**"},
		{"2\\boxed{5}", func(c, _ string) bool { return strings.NewReplacer(`\boxed{`, "", "}", "").Replace(c) == "25" }, "20 + 5 = \\boxed{25}"},
		{"€25", lastNumber, "25 of the apples"},
		{"25%", firstNumber, "25 (per the question)"},
		{"25 in 9 days", firstNumber, "25 in 7 days"},
		{"25 kg", firstNumber, "25 apples"},
		{"25 °C", firstNumber, "25 items"},
		{"25 PM", firstNumber, "25 of them"},
		{"25 v. Chr.", firstNumber, "25 units"},
		{"\\boxed{25} kg", firstNumber, "\\boxed{25} apples"},
	}
	k := newTestKey(t, `["25"]`, "", "", "How many apples are there after 7 days?")
	for _, tt := range tests {
		if !tt.weak(tt.attack, "25") {
			t.Errorf("%q does not even pass the weak matcher", tt.attack)
		}
		if v := k.match(tt.attack, false); v.Outcome != verdict.Failed {
			t.Errorf("attack %q is %s", tt.attack, familytest.Outcome(v))
		}
		if v := k.match(tt.honest, false); v.Outcome != verdict.Passed {
			t.Errorf("honest %q is %s", tt.honest, familytest.Outcome(v))
		}
	}
}

// TestManyMarks gives several answers, each marked in its own way or taken back.
func TestManyMarks(t *testing.T) {
	tests := []struct{ attack, honest string }{
		{"Answer: 24. Answer: 25", "Answer: 25. Answer: 25.0"},
		{"Answer: 25. 26.", "Answer: 25. That is all."},
		{"Answer: 25. Not really.", "Answer: 25. No further number is needed."},
		{"Answer: !25", "Answer: 25 apples!"},
		{"Answer: 25. Actually, 26.", "Answer: 25. Actually, that was easy to see."},
		{"Final answer: 24\nAnswer: 25", "Answer: 24\nFinal answer: 25"},
		{"#### 24\nFinal answer: 25", "#### 1. Counting\nFinal answer: 25"},
		{"\\boxed{24}\n#### 25", "#### 24\n\\boxed{25}"},
		{"\\boxed{24} or \\boxed{25}", "\\boxed{25}, that is \\boxed{25}"},
		{"<answer>24</answer><answer>25</answer>", "<answer>25</answer>"},
		{"<answer>24\nAnswer: 25</answer>", "<answer>\n25\n</answer>"},
		{"<think>Answer: 25", "<think>Answer: 24</think>25"},
		{"Answer: 25\nor 26", "Answer: 25\nOranges are no part of it."},
	}
	k := newTestKey(t, `["25"]`, "", "", "How many apples are there?")
	for _, tt := range tests {
		if !anyMarked(tt.attack, "25") && !contains(tt.attack, "25") {
			t.Errorf("%q does not even pass the weak matcher", tt.attack)
		}
		if v := k.match(tt.attack, false); v.Outcome != verdict.Failed {
			t.Errorf("attack %q is %s", tt.attack, familytest.Outcome(v))
		}
		if v := k.match(tt.honest, false); v.Outcome != verdict.Passed {
			t.Errorf("honest %q is %s", tt.honest, familytest.Outcome(v))
		}
	}
}
