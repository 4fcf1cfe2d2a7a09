package shortanswer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

const (
	passed    = "passed"
	wrong     = "failed wrong_answer"
	ambiguous = "failed ambiguous_answer"
	empty     = "failed empty_candidate"
)

// TestUnits: units may be divided and multiplied, in any typesetting; a multiple is no unit.
func TestUnits(t *testing.T) {
	k := newTestKey(t, `[36]`, "", "", "What is it?")
	for candidate, want := range map[string]string{
		"36 m/s^2": passed, `36\,\frac{m}{s^2}`: passed, `$36\,\frac{m^2}{s}$`: passed, "36 J/(mol·K)": passed, "36 J/(kg·K)": passed,
		"36 K": ambiguous, "36k": ambiguous, "36 million m/s^2": wrong, `36^2 m`: ambiguous, `36 \frac{1}{2}`: wrong, "36 J/(mol·zorkmids)": ambiguous,
	} {
		if got := familytest.Outcome(k.match(candidate, false)); got != want {
			t.Errorf("%q is %s, want %s", candidate, got, want)
		}
	}
}

func TestMatchNumber(t *testing.T) {
	tests := []struct{ accepted, tolerance, candidate, want string }{
		{`[540]`, "", "He runs 3*3=9 sprints.\nA: 540", passed},
		{`[540]`, "", "#### 540", passed},
		{`[0.5]`, "", "Answer: ½", passed},
		{`[0.5]`, "", "½", passed},
		{`[0.5]`, "", "It is ½.", passed},
		{`[0.5]`, "", "It is ⅓.", wrong},
		{`[2.5]`, "", "2½", passed},
		{`[0.001]`, "", "10^{-3}", passed},
		{`[1000]`, "", "10^{-3}", wrong},
		{`["540"]`, "", "**Final Answer:** 540 meters.", ambiguous},
		{`["540"]`, "", "**Final Answer:** 540.", passed},
		{`["540"]`, "", "The answer is $540", ambiguous},
		{`["540"]`, "", "The answer is $540$", passed},
		{`[540]`, "", "540 is the answer", passed},
		{`[540]`, "", "Answer - 540", passed},
		{`[540]`, "", "Answer -540", wrong},
		{`[540]`, "", "Answer – 540", passed},
		{`[540]`, "", "Final answer — 540", passed},
		{`[540]`, "", "Answer –540", wrong},
		{`[540]`, "", "Answer: 540\n```", passed},
		{`[540]`, "", "Answer: 540\nHope this helps!", passed},
		{`[540]`, "", "the answer is 540, not 541", ambiguous},
		{`[540]`, "", "the answer is not 540", ambiguous},
		{`[540]`, "", "the answer can't be 540", wrong},
		{`[540]`, "", "541 or 540", ambiguous},
		{`[540]`, "", "540m", ambiguous},
		{`[42]`, "", "Answer: 41 B: is 42", ambiguous},
		{`[-10]`, "", "A: -10", passed},
		{`[-10]`, "", "A: −10", passed},
		{`[-10]`, "", "A: 10", wrong},
		{`["-$5"]`, "", "$-5", passed},
		{`["$5"]`, "", "€5", ambiguous},
		{`["5%"]`, "", "5", passed},
		{`[5]`, "", "5%", ambiguous},
		{`["1,500"]`, "", "1500.00", passed},
		{`["1,500"]`, "", "1.5e3", passed},
		{`[1e3]`, "", "1,000", passed},
		{`[3]`, "0.1", "3.1", passed},
		{`[3]`, "0.1", "3.11", wrong},
		{`[3]`, "1e-400", "3", passed},
		{`[540]`, "", "five hundred and forty", passed},
		{`[540]`, "", "", empty},
		{`[540]`, "", strings.Repeat("x ", 32<<10) + "540", ambiguous},
		{`[540]`, "", strings.Repeat("x ", 32<<10) + ". Answer: 540", passed},
		{`[3, "three"]`, "", "three", passed},
		{`[3, "three"]`, "", "it is three.", passed},
	}
	for _, tt := range tests {
		k := newTestKey(t, tt.accepted, tt.tolerance, "", "How many?")
		if got := familytest.Outcome(k.match(tt.candidate, false)); got != tt.want {
			t.Errorf("%s, tolerance %q: %.60q is %s, want %s", tt.accepted, tt.tolerance, tt.candidate, got, tt.want)
		}
	}
}

func TestMatchText(t *testing.T) {
	tests := []struct{ accepted, question, candidate, want string }{
		{`["Denver Broncos"]`, "Who won Super Bowl 50?", "The Denver Broncos won Super Bowl 50.", passed},
		{`["Denver Broncos"]`, "Who won?", "I think the answer is: **Denver Broncos**", passed},
		{`["Denver Broncos"]`, "Who won?", "“Denver Broncos”", passed},
		{`["Denver Broncos"]`, "Who won?", "The Denver Broncos lost", wrong},
		{`["Denver Broncos"]`, "Who did not win?", "not the Denver Broncos", wrong},
		{`["Denver Broncos"]`, "Who won, A or B?", "Denver Broncos or A", ambiguous},
		{`["Denver Broncos"]`, "Who won?", "Denver Broncos\nor not", ambiguous},
		{`["Paris"]`, "Is it Paris, Lyon or Nice?", "Paris", passed},
		{`["Paris"]`, "Is it Paris, Lyon or Nice?", "It is Paris", passed},
		{`["Paris"]`, "Is it Paris, Lyon or Nice?", "Paris, Lyon", ambiguous},
		{`["Paris"]`, "Is it Paris, Lyon or Nice?", "Lyon Paris", wrong},
		{`["Paris"]`, "Capital of France?", "the capital of France is Paris", passed},
		{`["Paris"]`, "Capital of France?", "Paris's", wrong},
		{`["Paris"]`, "the the the", strings.Repeat("the ", 11) + "Paris", passed},
		{`["Paris"]`, "the the the", strings.Repeat("the ", 41) + "Paris", ambiguous},
		{`["Answer Me"]`, "Which song?", "Answer me!", passed},
		{`["Answer Me"]`, "Which song?", "Answer me.", passed},
		{`["1/2"]`, "", "1/2", passed},
		{`["1/2"]`, "", "x1/2", wrong},
		{`["5 km"]`, "", "-5 km", wrong},
		{`["5 km"]`, "How far is it?", "it is 5 km far", passed},
		{`["pi"]`, "What is x?", "x = pi", passed},
		{`["pi"]`, "What is x?", "-pi", wrong},
		{`["café"]`, "", "cafe\u0301", passed},
		{`["a*b*c"]`, "", "Answer: a*b*c", passed},
		{`["\\frac{x+1}{2}"]`, "", "**Answer:** $\\frac{x+1}{2}$", passed},
		{`["\\text{x}"]`, "", "Answer: \\text{x}", passed},
		{`["Paris"]`, "Capital of France?", "Answer: Paris. It is the capital.", passed},
		{`["Paris"]`, "What is the capital of France?", "Paris, the capital is Lyon.", ambiguous},
		{`["Paris"]`, "What is the capital of France?", "Paris - the capital of France is Lyon.", wrong},
		{`["Paris"]`, "What is the capital of France?", "Paris (the capital is Lyon)", wrong},
		{`["Paris"]`, "What is the capital of France?", "Answer: Paris, the capital is Lyon.", ambiguous},
		{`["Paris"]`, "What is the capital of France?", "Paris (the capital of France is Paris)", passed},
		{`["Paris"]`, "What is the capital of France?", "Paris, the capital is on the river Seine.", passed},
		{`["Paris"]`, "Capital of France?", "Answer: Paris. London.", ambiguous},
		{`["Paris"]`, "Capital of France?", "the capital of France is Paris?", wrong},
	}
	for _, tt := range tests {
		k := newTestKey(t, tt.accepted, "", "", tt.question)
		if got := familytest.Outcome(k.match(tt.candidate, false)); got != tt.want {
			t.Errorf("%s, %q: %q is %s, want %s", tt.accepted, tt.question, tt.candidate, got, tt.want)
		}
	}
}

func TestMatchDeclared(t *testing.T) {
	tests := []struct{ accepted, match, candidate, want string }{
		{`["1,500"]`, `{"type": "number"}`, "it is 1500", passed},
		{`["007"]`, `{"type": "text"}`, "007", passed},
		{`["007"]`, `{"type": "text"}`, "Answer: 007", passed},
		{`["007"]`, `{"type": "text"}`, "7", wrong},
		{`[1.50]`, `{"type": "text"}`, "1.5", wrong},
		{`["Paris"]`, `{"type": "text"}`, "it is Paris", wrong},
		{`["Paris"]`, `{"type": "text", "ignore_case": false}`, "Paris.", passed},
		{`["Paris"]`, `{"type": "text", "ignore_case": false}`, "paris", wrong},
		{`["Paris"]`, `{"type": "span"}`, "surely everybody knows that Paris rules", passed},
		{`["Paris"]`, `{"type": "span", "max_extra_words": 2}`, "surely everybody likes Paris", wrong},
		{`["Paris"]`, `{"type": "span", "max_extra_words": 0}`, "Paris!", passed},
		{`["Paris"]`, `{"type": "span"}`, "surely never Paris", wrong},
		{`["Paris"]`, `{"type": "span"}`, "Lyon or Paris", ambiguous},
		{`["a", "b"]`, `{"type": "set"}`, "b, A", passed},
		{`["a", "b", "c"]`, `{"type": "set"}`, "a, c, and b.", passed},
		{`["a", "b"]`, `{"type": "set"}`, "a and b", passed},
		{`["a", "b"]`, `{"type": "set"}`, "a", wrong},
		{`["a", "b"]`, `{"type": "set"}`, "a, b, c", wrong},
		{`["a", "b"]`, `{"type": "set"}`, "a, a", wrong},
		{`["x", "x2", "x3", "x4"]`, `{"type": "set"}`, "x,x,x,x", wrong},
		{`[1, 2, 3]`, `{"type": "set"}`, "1,2,3.0", passed},
		{`[1, 500]`, `{"type": "set"}`, "1,500", wrong},
		{`["1,500", 2]`, `{"type": "set"}`, "2, 1,500", passed},
		{`["Salt and pepper", "oil, olive"]`, `{"type": "set"}`, "oil, olive; salt and pepper", passed},
		{`["salt and pepper", "oil"]`, `{"type": "set"}`, "salt and pepper, oil", passed},
		{`["salt and pepper", "oil"]`, `{"type": "set"}`, "Oil and 'Salt and Pepper'.", passed},
		{`["salt and pepper", "oil"]`, `{"type": "set"}`, "oil, and salt  and pepper", passed},
		{`["salt and pepper", "oil"]`, `{"type": "set"}`, "salt, pepper and oil", wrong},
		{`["salt and pepper", "oil"]`, `{"type": "set"}`, "salt and peppermint, oil", wrong},
		{`["salt and pepper", "oil"]`, `{"type": "set"}`, "salt and pepper and salt and pepper", wrong},
		{`["salt and pepper", "oil"]`, `{"type": "set", "ignore_case": false}`, "Salt and pepper, oil", wrong},
		{`["salt", "pepper", "salt and pepper"]`, `{"type": "set"}`, "salt and pepper, salt and pepper", passed},
		{`["salt", "pepper", "salt and pepper"]`, `{"type": "set"}`, "pepper, salt, salt and pepper", passed},
		{`["salt", "pepper", "salt and pepper"]`, `{"type": "set"}`, "salt and pepper", wrong},
		{`["salt and pepper", "salt", "peppermint"]`, `{"type": "set"}`, "salt and peppermint, salt and pepper", passed},
		{`["a and b", "a and b and c"]`, `{"type": "set"}`, "a and b and c and a and b", passed},
		{`["U.S. and U.K.", "oil, olive"]`, `{"type": "set"}`, "oil, olive, U.S. and U.K.", passed},
		{`["U.S. and U.K.", "oil, olive"]`, `{"type": "set"}`, "U.S. and U.K., olive, oil", wrong},
		{`["5%", 5]`, `{"type": "set"}`, "5, 5%", passed},
		{`["5%", 5]`, `{"type": "set"}`, "5%, 5%", wrong},
		{`[5]`, `{"type": "number", "marker": "RESULT="}`, "7 result= 5", passed},
		{`[5]`, `{"type": "number", "marker": "RESULT="}`, "Answer: 5", wrong},
		{`[5]`, `{"type": "number", "marker": "RESULT=", "ignore_case": false}`, "result=5", wrong},
		{`["x"]`, `{"type": "text", "marker": ">>"}`, "y >> x", passed},
		{`["x"]`, `{"type": "text", "marker": ">>"}`, "x >> x", passed},
		{`["x"]`, `{"type": "text", "marker": ">>"}`, ">> y >> x", ambiguous},
	}
	for _, tt := range tests {
		k := newTestKey(t, tt.accepted, "", tt.match, "")
		if got := familytest.Outcome(k.match(tt.candidate, false)); got != tt.want {
			t.Errorf("%s, %s: %q is %s, want %s", tt.accepted, tt.match, tt.candidate, got, tt.want)
		}
	}
}

// TestSetsArePairedExactly has numbers that lie within the tolerance of several
// accepted ones: the order in which they are written must not matter.
func TestSetsArePairedExactly(t *testing.T) {
	tests := []struct{ accepted, candidate, want string }{
		{`[1, 2]`, "1.5, 0.5", passed},
		{`[1, 2]`, "0.5, 1.5", passed},
		{`[1, 2]`, "0.5, 0.6", wrong},
		{`[1, 2]`, "2.5, 2.6", wrong},
		{`[1, 2, 3]`, "2, 3, 2", passed},
		{`[1, 2, 3]`, "3, 2, 0", passed},
		{`[1, 2, 3]`, "2.5, 1.5, 0.5", passed},
		{`[1, 2, 3]`, "4, 4, 1", wrong},
		{`[1, 2, "x"]`, "x, 1.5, 0.5", passed},
		{`[1, 2, "x"]`, "1, 1.5, 0.5", wrong},
	}
	for _, tt := range tests {
		k := newTestKey(t, tt.accepted, "1", `{"type": "set"}`, "")
		if got := familytest.Outcome(k.match(tt.candidate, false)); got != tt.want {
			t.Errorf("%s within 1: %q is %s, want %s", tt.accepted, tt.candidate, got, tt.want)
		}
	}
}

// TestNegatorApostrophes spells n't with every apostrophe.
func TestNegatorApostrophes(t *testing.T) {
	number := newTestKey(t, `[42]`, "", "", "What isn't 41?")
	text := newTestKey(t, `["Paris"]`, "", "", "Which city isn't small?")
	span := newTestKey(t, `["Paris"]`, "", `{"type": "span"}`, "")
	for _, apostrophe := range []string{"'", "\u2019", "\u02bc", "\uff07"} {
		not := "It isn" + apostrophe + "t "
		for name, v := range map[string]family.Verdict{
			"42": number.match(not+"42", false), "Paris": text.match(not+"Paris", false), "a span": span.match(not+"Paris", false),
			"quoted": number.match("It is "+apostrophe+"not"+apostrophe+" 42", false),
		} {
			if v.Outcome != verdict.Failed {
				t.Errorf("%s, apostrophe %+q: %s", name, apostrophe, familytest.Outcome(v))
			}
		}
		is := "It" + apostrophe + "s "
		for name, v := range map[string]family.Verdict{
			"42": number.match(is+"42", false), "Paris": text.match(is+"Paris", false), "a span": span.match(is+"Paris", false),
		} {
			if v.Outcome != verdict.Passed {
				t.Errorf("honest %s, apostrophe %+q: %s", name, apostrophe, familytest.Outcome(v))
			}
		}
	}
}

// TestDashesBeforeNumbers: what is not a sign but looks like one never vanishes.
func TestDashesBeforeNumbers(t *testing.T) {
	five, below := newTestKey(t, `[5]`, "", "", ""), newTestKey(t, `[-5]`, "", "", "")
	for _, dash := range dashes() {
		for _, candidate := range []string{"%5", "% 5", "Answer: %5", "It is %  $5", "%$ 5", "x %5"} {
			candidate = strings.ReplaceAll(candidate, "%", dash)
			if v := five.match(candidate, false); v.Outcome != verdict.Failed {
				t.Errorf("%+q is %s for 5", candidate, familytest.Outcome(v))
			}
			if v := below.match(candidate, false); v.Outcome != verdict.Failed {
				t.Errorf("%+q is %s for -5", candidate, familytest.Outcome(v))
			}
		}
		for _, candidate := range []string{"%x, so 5", "a % b = 5", "5 % so be it"} {
			candidate = strings.ReplaceAll(candidate, "%", dash)
			if v := five.match(candidate, false); v.Outcome != verdict.Passed {
				t.Errorf("honest %+q is %s", candidate, familytest.Outcome(v))
			}
		}
		accepted, err := json.Marshal([]string{dash + "5"})
		if err != nil {
			t.Fatal(err)
		}
		if v := newTestKey(t, string(accepted), "", "", "").match(dash+"5", false); v.Outcome != verdict.Passed {
			t.Errorf("%+q is %s where it is accepted", dash+"5", familytest.Outcome(v))
		}
	}
}

// dashes are the dashes of Unicode that are not signs and what looks like one.
func dashes() []string {
	out := []string{"\u02d7", "\u207b", "\u208b", "\u2796", "\u2043"}
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		// An en dash that begins an answer is a minus sign, and a full-width one a hyphen.
		if unicode.Is(unicode.Pd, r) && r != '\u2013' && r != '\uff0d' && r != '\U00010ead' {
			out = append(out, string(r))
		}
	}
	return out
}

func TestNewKeyRefuses(t *testing.T) {
	tests := []struct {
		accepted, tolerance, match string
		want                       error
	}{
		{`[]`, "", "", errNoAnswers},
		{`"x"`, "", "", errNoAnswers},
		{`[true]`, "", "", errNoAnswers},
		{`[1]`, "-1", "", errTolerance},
		{`[1]`, `"1"`, "", errTolerance},
		{`[1]`, "1e999", "", errTolerance},
		{`["x"]`, "", `{"type": "number"}`, errNotNumber},
		{`["x"` + strings.Repeat(`, "x"`, compare.MaxSet) + `]`, "", `{"type": "set"}`, errSetSize},
		{`["x"` + strings.Repeat(`, "x"`, compare.MaxSet-1) + `]`, "", `{"type": "set"}`, nil},
		{`["x"` + strings.Repeat(`, "x"`, compare.MaxSet) + `]`, "", "", nil},
		{`["x"]`, "", `{"type": "regexp"}`, errMatchType},
		{`["x"]`, "", `{}`, errMatchType},
		{`["x"]`, "", `{"type": "text", "marker": " "}`, errMarker},
		{`["x"]`, "", `{"type": "text", "max_extra_words": 1}`, errExtraWords},
		{`["x"]`, "", `{"type": "span", "max_extra_words": -1}`, errExtraWords},
	}
	for _, tt := range tests {
		_, err := newKey(jsontext.Value(tt.accepted), jsontext.Value(tt.tolerance), jsontext.Value(tt.match), "", "")
		if !errors.Is(err, tt.want) {
			t.Errorf("%s %s %s: error %v, want %v", tt.accepted, tt.tolerance, tt.match, err, tt.want)
		}
	}
	if _, err := newKey(jsontext.Value(`["x"]`), nil, jsontext.Value(`{"type": "text", "Marker": "x"}`), "", ""); err == nil {
		t.Error("an unknown member of match is accepted")
	}
}

func TestVerifier(t *testing.T) {
	const canary = "canary-5b1f"
	row, err := task.New(task.Config{
		ID: "t", Family: "short_answer", Pack: task.Pack{ID: "p"},
		Resources: []task.Resource{
			{Name: "question", Lane: task.Public, Value: jsontext.Value(`"How many legs has a cow?"`)},
			{Name: "accepted_answers", Lane: task.Hidden, Value: jsontext.Value(`["` + canary + `", 4]`)},
			{Name: "tolerance", Lane: task.Hidden, Value: jsontext.Value(`0.125`)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(text string) family.Verdict {
		s := newVerifier(family.Resources{}).Open(t.Context(), family.Case{Evaluator: row.Evaluator()})
		v, err := s.Verify(t.Context(), candidate.New(task.Text, candidate.Given, []byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	want := family.Verdict{
		Outcome: verdict.Passed, Containment: verdict.Passive,
		Metadata: verdict.NewMetadata(map[string]any{
			"candidate_answer": "a cow has 4 legs", "expected_answer": task.Redacted,
			"accepted_answer_count": 2, "matched_answer_index": 1,
			"match_strategy": "numeric_tolerance", "tolerance": task.Redacted,
		}),
	}
	if diff := cmp.Diff(want, verify(" a cow has 4 legs\n")); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	for _, candidate := range []string{"", "5", "a cow", "a cow has 4 legs"} {
		v := verify(candidate)
		data, err := json.Marshal(v.Metadata)
		if published := string(data) + v.Message; err != nil ||
			strings.Contains(published, canary) || strings.Contains(published, "0.125") {
			t.Errorf("%q publishes a hidden value: %s, error %v", candidate, published, err)
		}
	}
}

// TestReasonsRevealNothing checks that a failure reads the same whether or not
// an accepted answer is in the candidate.
func TestReasonsRevealNothing(t *testing.T) {
	spray := []string{"red", "green", "blue"}
	with := newTestKey(t, `["green"]`, "", "", "").match(strings.Join(spray, ", "), false)
	without := newTestKey(t, `["mauve"]`, "", "", "").match(strings.Join(spray, ", "), false)
	if diff := cmp.Diff(with, without); diff != "" || with.Outcome != verdict.Failed {
		t.Errorf("%s; the verdicts differ (-with +without):\n%s", familytest.Outcome(with), diff)
	}
}

// states matches text that states the right answer in a sentence of its own, after one
// that states nothing exactly or takes the wrong one back.
var states = regexp.MustCompile(`[.].*(Answer:|A:).*42|(not|or)[^.]*[.].*42`)

// calculates matches text that makes the wrong answer a part of a calculation, whose
// result follows.
var calculates = regexp.MustCompile(`[-*].*(is|:)`)

// TestAppendedTextNeverHelps starts with a wrong answer after a marker and
// appends text to its line that may hold the right one.
func TestAppendedTextNeverHelps(t *testing.T) {
	number := newTestKey(t, `[42]`, "0.5", "", "What is six times seven?")
	text := newTestKey(t, `["blue whale"]`, "", "", "What is the largest animal?")
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{
			" ", "42", "blue whale", "answer", "Answer: 42", "is", "####", "A:", ".", ",", "not", "or", "e1", "*", "\u200b", "-", "animal",
		})).Draw(t, "parts")
		appended := " " + strings.Join(parts, "")
		if states.MatchString(appended) || calculates.MatchString(appended) {
			t.Skip("a statement of its own")
		}
		if c := "Answer: 41" + appended; number.match(c, false).Outcome == verdict.Passed {
			t.Fatalf("%q passed", c)
		}
		if c := "Answer: elephant" + appended; text.match(c, false).Outcome == verdict.Passed {
			t.Fatalf("%q passed", c)
		}
	})
}

// TestSpraysNeverPass lists numbers that may hold the right one.
func TestSpraysNeverPass(t *testing.T) {
	k := newTestKey(t, `[42]`, "1", "", "")
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfNDistinct(rapid.IntRange(20, 60), 2, 40, rapid.ID[int]).Draw(t, "numbers")
		separator := rapid.SampledFrom([]string{" ", ", ", ";", " or ", "/", "-", "±", " .. ", "|"}).Draw(t, "separator")
		candidate := strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", separator), "[]")
		if v := k.match(candidate, false); v.Outcome == verdict.Passed {
			t.Fatalf("%q passed", candidate)
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{"42", "Answer: blue whale", "a\n#### 42", "$42.0!", "it's a blue whale", "4e1", "b, a", "final answer is -42", "\\boxed{42}", "42 per 7", "<think>a</think>42"} {
		f.Add(s)
	}
	number := newTestKey(f, `["42"]`, "", "", "")
	text := newTestKey(f, `["blue whale"]`, "", "", "largest animal")
	set := newTestKey(f, `["a", "b", 3]`, "", `{"type": "set"}`, "")
	f.Fuzz(func(t *testing.T, candidate string) {
		candidate = strings.ToValidUTF8(candidate, "")
		said := textmatch.Lower(answer.Said(candidate))
		if v := number.match(candidate, false); v.Outcome == verdict.Passed {
			if digits := strings.NewReplacer(".", "", ",", "", "{", "", "}", "", `\`, "").Replace(said); !strings.Contains(digits, "42") {
				t.Fatalf("%q passed without the digits of the answer", candidate)
			}
			boxed := candidate + "\n\nAll in all:\n\n\\boxed{43}."
			if v := number.match(boxed, false); v.Outcome == verdict.Passed && !strings.Contains(candidate, "<") {
				t.Fatalf("%q passed with another number of the highest rank behind it", candidate)
			}
		}
		if v := text.match(candidate, false); v.Outcome == verdict.Passed && !strings.Contains(textmatch.Collapse(answer.Plain(said)), "blue whale") {
			t.Fatalf("%q passed without the answer", candidate)
		}
		if v := set.match(candidate, false); v.Outcome == verdict.Passed && !strings.Contains(said, "3") {
			t.Fatalf("%q passed without every element", candidate)
		}
	})
}
