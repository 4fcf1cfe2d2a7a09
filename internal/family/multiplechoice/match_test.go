package multiplechoice

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

func newTestKey(t testing.TB, answer string, choices ...string) key {
	t.Helper()
	k, err := newKey(choices, jsontext.Value(answer), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const (
	passed    = "passed"
	wrong     = "failed wrong_answer"
	ambiguous = "failed ambiguous_answer"
	empty     = "failed empty_candidate"
)

func TestMatch(t *testing.T) {
	numbers := newTestKey(t, `2`, "1", "2", "4", "5")
	signs := newTestKey(t, `1`, "-5", "5", "$5", "(5)")
	words := newTestKey(t, `"Option value theory"`, "Option value theory", "Real options", "Answer key")
	twins := newTestKey(t, `0`, "same", "Same.", "other")
	tests := []struct {
		name      string
		key       key
		candidate string
		want      string
	}{
		{"label", numbers, "C", passed},
		{"other label", numbers, "B", wrong},
		{"label out of range", numbers, "E", wrong},
		{"text", numbers, "4", passed},
		{"Markdown", numbers, "**Final answer:** `C`", passed},
		{"bold line", numbers, "**Answer: C**", passed},
		{"boxed label and text", numbers, "**(C)** 4.", passed},
		{"label with another's text", numbers, "C) 5", ambiguous},
		{"label, bullet, text", numbers, "C - 4", passed},
		{"repeated leads", numbers, "Final answer: my choice", wrong},
		{"lead in lead", numbers, "The answer is option: C", passed},
		{"code block", numbers, "```\nC\n```", passed},
		{"reasoning, then label", numbers, "A is too small.\nB is too small.\n\nC", passed},
		{"a courtesy behind the answer", numbers, "Answer: C\nHope this helps!", passed},
		{"answer lead outweighs lines before", numbers, "A\nB\nAnswer: C", passed},
		{"answer lead outweighs the last line", numbers, "Answer: C\nB", passed},
		{"the last line does not outweigh the answer lead", numbers, "Answer: B\nC", wrong},
		{"answer lead outweighs an option lead behind it", numbers, "Final answer: C\nOption B", passed},
		{"answer leads disagree", numbers, "Answer: C\nB\nThe answer is B", ambiguous},
		{"answer leads disagree, label at the end", numbers, "Answer: B\nAnswer: C\nC", ambiguous},
		{"an explanation behind the answer", numbers, "Answer: C\nB is wrong", passed},
		{"option lead does not outweigh", numbers, "A\noption C", ambiguous},
		{"agreeing lines", numbers, "C\nAnswer: 4\nFinal answer: C) 4", passed},
		{"negated clause", numbers, "It is not true that the answer is C", wrong},
		{"contracted negator", numbers, "I don’t think the answer is C", wrong},
		{"modifier letter as apostrophe", numbers, "I donʼt think the answer is C", wrong},
		{"no negator with that letter", numbers, "Itʼs true: the answer is C", passed},
		{"negator in another clause", numbers, "It is not A, so the answer is C", passed},
		{"conjunction begins a clause", numbers, "It is not A so the answer is C", passed},
		{"negated behind the lead", numbers, "The answer is not C", ambiguous},
		{"label in a sentence, with a reason", numbers, "C is right because B is not", passed},
		{"full width label", numbers, "Ｃ", passed},
		{"cyrillic label", numbers, "С", wrong},
		{"label and zero width space", numbers, "C\u200b", passed},
		{"blank", numbers, " \n\t", empty},
		{"only a fence", numbers, "```", empty},
		{"sign that no choice has", numbers, "answer -4", wrong},
		{"sign before a currency", numbers, "answer -$4", wrong},
		{"minus is a sign", signs, "Answer: -5", wrong},
		{"minus behind the lead", signs, "answer -5", wrong},
		{"hyphen with space separates", signs, "answer - 5", passed},
		{"dollar text before dollar markup", signs, "**$5**", wrong},
		{"bracket text before brackets", signs, "(5)", wrong},
		{"text", signs, "5", passed},
		{"label, then a negative text", signs, "B) -5", ambiguous},
		{"text that begins with a lead", words, "Option value theory", passed},
		{"lead before such a text", words, "Answer: option value theory", passed},
		{"another such text", words, "answer key", wrong},
		{"text that differs from another only by case and punctuation", twins, "same", passed},
		{"the other of the two", twins, "Same.", wrong},
		{"either of the two", twins, "SAME", ambiguous},
		{"label of the twin", twins, "B", wrong},
		{"label and text of twins agree", twins, "A\nSAME", passed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := familytest.Outcome(tt.key.match(tt.candidate, false)); got != tt.want {
				t.Errorf("%q is %s, want %s", tt.candidate, got, tt.want)
			}
		})
	}
}

// TestContractions: a choice's text behind its label may contract what denies; the other
// choice's may not.
func TestContractions(t *testing.T) {
	k := newTestKey(t, `1`, "It can fly", "It cannot fly", "It is not a bird")
	for candidate, want := range map[string]string{
		"B. It can't fly": passed, "B. It can not fly": passed, "Answer: (B) It can’t fly.": passed, "The answer is B. It cannot fly.": passed,
		"B. It isn't a bird": ambiguous, "B. It can fly": ambiguous, "C. It isn't a bird": wrong, "It can fly": wrong,
	} {
		if got := familytest.Outcome(k.match(candidate, false)); got != want {
			t.Errorf("%q is %s, want %s", candidate, got, want)
		}
	}
}

// TestSimilarChoices keeps choices apart that differ in case, quotes or punctuation
// alone: what is written as one of them is that one.
func TestSimilarChoices(t *testing.T) {
	genes := []string{"AA", "Aa", "aa", "none"}
	quotes := []string{`"a"`, "'a'", "a1", "x"}
	steps := []string{"i++;", "i++", "++i"}
	units := []string{"mW", "MW", "kW"}
	points := []string{"1.", "1", "2"}
	money := []string{"$5", "5", "(5)"}
	spaces := []string{"a  b", "a b", "c"}
	lines := []string{"X\ny", "x y"}
	accents := []string{"E\u0301x", "\u00e9x"}
	same := []string{"same", "same", "other"}
	tests := []struct {
		choices         []string
		answer          string
		candidate, want string
	}{
		{genes, `"A"`, "AA", passed},
		{genes, `"A"`, "Aa", wrong},
		{genes, `"A"`, "Answer: aa", wrong},
		{genes, `"C"`, "Answer: aa", passed},
		{genes, `"C"`, "**Final answer:** aa.", passed},
		{genes, `"AA"`, "A", passed},
		{genes, `"AA"`, "B", wrong},
		{genes, `"AA"`, "aa", wrong},
		{genes, `0`, "aA", ambiguous},
		{genes, `["AA", "Aa", "aa"]`, "aA", passed},
		{genes, `["AA", "Aa"]`, "aA", ambiguous},
		{genes, `"aA"`, "aA", passed}, // such an answer is all three
		{genes, `3`, "aA", ambiguous},
		{genes, `3`, "None", passed},
		{genes, `0`, "A) AA", passed},
		{genes, `0`, "A) aA", passed}, // the label decides
		{genes, `0`, "A) Aa", ambiguous},
		{genes, `1`, "A) Aa", ambiguous},
		{genes, `0`, "B) Aa", wrong},
		{genes, `0`, "A\naA", passed},
		{genes, `0`, "A\naa", ambiguous},
		{quotes, `"A"`, `"a"`, passed},
		{quotes, `"A"`, "'a'", wrong},
		{quotes, `"B"`, "Answer: 'a'.", passed},
		{quotes, `"B"`, "a", wrong}, // a lone letter is a label
		{quotes, `"A"`, "“a”", passed},
		{quotes, `"'a'"`, "'a'", passed},
		{quotes, `"'a'"`, "A", wrong},
		{steps, `"i++"`, "i++", passed},
		{steps, `"i++"`, "B", passed},
		{steps, `"i++"`, "i++;", wrong},
		{steps, `"i++"`, "**i++;**", wrong},
		{steps, `"i++;"`, "**Answer:** `i++;`", passed},
		{steps, `"i++;"`, "Answer: **i++**;", wrong},
		{steps, `"i++"`, "**B) i++**", passed},
		{steps, `"i++"`, "**B) i++;**", ambiguous},
		{steps, `"A"`, "**A) i++;**", passed},
		{units, `"A"`, "MW", wrong},
		{units, `"A"`, "mW", passed},
		{units, `"A"`, "mw", ambiguous},
		{units, `"C"`, "KW", passed},
		{points, `"A"`, "1", wrong},
		{points, `"A"`, "1.", passed},
		{points, `"1"`, "Answer - 1", passed},
		{points, `"1"`, "1.", wrong},
		{points, `"1"`, "2.", wrong},
		{points, `"2"`, "2.", passed},
		{money, `"5"`, "$5$", passed},
		{money, `"5"`, "$5", wrong},
		{money, `"5"`, "(5)", wrong},
		{money, `"$5"`, "($5)", passed},
		{spaces, `"a b"`, "a b", ambiguous}, // a line does not show which
		{spaces, `"a b"`, "A", wrong},
		{spaces, `"a b"`, "B", passed},
		{lines, `"X y"`, "A", passed},
		{lines, `"X y"`, "B", wrong},
		{lines, `"X y"`, "X y", passed},
		{accents, `0`, "\u00c9x", passed}, // composed or not
		{accents, `0`, "e\u0301x", wrong},
		{accents, `"\u00c9x"`, "B", wrong},
		{same, `0`, "same", ambiguous},
		{same, `"same"`, "same", passed},
		{same, `2`, "same", ambiguous},
		{same, `0`, "A) same", passed},
		{same, `0`, "B) same", wrong},
	}
	for _, tt := range tests {
		k := newTestKey(t, tt.answer, tt.choices...)
		if got := familytest.Outcome(k.match(tt.candidate, false)); got != tt.want {
			t.Errorf("%q, answer %s: %q is %s, want %s", tt.choices, tt.answer, tt.candidate, got, tt.want)
		}
	}
}

// TestWrittenTextNamesItsChoice gives the text of each choice as it is written,
// around which only markup may stand.
func TestWrittenTextNamesItsChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.StringOfN(rapid.SampledFrom([]rune("xY1y;.'\"-")), 2, 5, -1)
		choices := rapid.SliceOfNDistinct(texts.Filter(func(s string) bool { return textmatch.CountWords(s, 1) > 0 }), 2, 5, rapid.ID[string]).Draw(t, "choices")
		at := rapid.IntRange(0, len(choices)-1).Draw(t, "at")
		frame := rapid.SampledFrom([]string{"%", "Answer: %", "**%**", "The answer is **%**", "`%`"}).Draw(t, "frame")
		for right := range choices {
			k, err := newKey(choices, jsontext.Value(fmt.Sprint(right)), nil, "")
			if err != nil {
				t.Fatal(err)
			}
			candidate := strings.ReplaceAll(frame, "%", choices[at])
			if passed := k.match(candidate, false).Outcome == verdict.Passed; passed != (at == right) {
				t.Fatalf("%q, right is %d: %q passed is %v", choices, right, candidate, passed)
			}
		}
	})
}

func TestVerifier(t *testing.T) {
	row, err := task.New(task.Config{
		ID: "t", Family: "multiple_choice", Pack: task.Pack{ID: "p"},
		Resources: []task.Resource{
			{Name: "question", Lane: task.Public, Value: jsontext.Value(`"Which?"`)},
			{Name: "choices", Lane: task.Public, Value: jsontext.Value(`["DNS", "TLS"]`)},
			{Name: "answer", Lane: task.Hidden, Value: jsontext.Value(`"TLS"`)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newVerifier(family.Resources{}).Open(t.Context(), family.Case{Evaluator: row.Evaluator()})
	got, err := s.Verify(t.Context(), candidate.New(task.Text, candidate.Given, []byte(" b\n")))
	if err != nil {
		t.Fatal(err)
	}
	want := family.Verdict{
		Outcome: verdict.Passed, Containment: verdict.Passive,
		Metadata: verdict.NewMetadata(map[string]any{"candidate_answer": "b", "expected_answer": task.Redacted}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// states matches text that states the right answer in a sentence of its own,
// after one that names nothing exactly.
var states = regexp.MustCompile(`(?s)[.\n].*Final answer: B`)

// TestAppendedTextNeverHelps starts with a wrong answer and appends what may
// hold the right one, at the same rank or a lower one.
func TestAppendedTextNeverHelps(t *testing.T) {
	k := newTestKey(t, `"TLS"`, "DNS", "TLS", "NTP", "FTP")
	rapid.Check(t, func(t *rapid.T) {
		candidate := rapid.SampledFrom([]string{"Final answer: A", "final answer is dns", "Final answer - (C)", "FINAL ANSWER: D) ftp"}).Draw(t, "wrong")
		parts := rapid.SliceOf(rapid.SampledFrom([]string{
			" ", "B", "TLS", "answer", ":", "is", "\n", "Final answer: B", ".", ",", "not", "so", "*", "(", ")", "\u200b", "B) TLS",
		})).Draw(t, "parts")
		appended := strings.Join(parts, "")
		if !strings.HasPrefix(appended, "\n") {
			appended = " " + strings.ReplaceAll(appended, "\n", " ")
		}
		if states.MatchString(appended) {
			t.Skip("a sentence of its own")
		}
		if v := k.match(candidate+appended, false); v.Outcome == verdict.Passed {
			t.Fatalf("%q passed", candidate+appended)
		}
	})
}

// TestSpraysNeverPass lists several choices in every way.
func TestSpraysNeverPass(t *testing.T) {
	k := newTestKey(t, `"TLS"`, "DNS", "TLS", "NTP", "FTP")
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "B", "C", "D"}), 2, 4, rapid.ID[string]).Draw(t, "items")
		separator := rapid.SampledFrom([]string{", ", "\n", " and ", " ", "/", ";", "\nAnswer: ", " answer: ", "\u2028"}).Draw(t, "separator")
		leads := []string{"", "Answer: ", "The answer is "}
		switch separator { // one answer lead outweighs bare lines
		case "\n", "\u2028":
			leads = []string{"", "Option "}
		case "\nAnswer: ", " answer: ":
			leads = leads[1:]
		}
		candidate := rapid.SampledFrom(leads).Draw(t, "lead") + strings.Join(items, separator)
		if v := k.match(candidate, false); v.Outcome == verdict.Passed {
			t.Fatalf("%q passed", candidate)
		}
	})
}

func TestMetadataIsBounded(t *testing.T) {
	k := newTestKey(t, `0`, "yes", "no")
	v := k.match(strings.Repeat("x", 1<<20), false)
	data, err := json.Marshal(v.Metadata)
	if err != nil || len(data) > textmatch.MaxExcerpt+100 {
		t.Errorf("metadata has %d bytes, error %v", len(data), err)
	}
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{"B", "Answer: TLS", "**(b)** tls.", "A\nB", "not the answer: B", "answer -", "b)-", "$B$", "```\nB", "\\boxed{B}", "#### B\nA", "I choose B. <think>A</think>"} {
		f.Add(s)
	}
	k := newTestKey(f, `"TLS"`, "DNS", "TLS", "-5", "answer")
	f.Fuzz(func(t *testing.T, candidate string) {
		candidate = strings.ToValidUTF8(candidate, "")
		if k.match(candidate, false).Outcome != verdict.Passed {
			return
		}
		stated := textmatch.Lower(answer.Said(candidate))
		if !strings.Contains(stated, "b") && !strings.Contains(stated, "tls") {
			t.Fatalf("%q passed without label or text in %q", candidate, stated)
		}
		if strings.Contains(candidate, "<") {
			return // what follows may be reasoning
		}
		if v := k.match(candidate+"\n\nAll in all:\n\n\\boxed{A}.", false); v.Outcome == verdict.Passed {
			t.Fatalf("%q passed with a contradiction of the highest rank behind it", candidate)
		}
	})
}
