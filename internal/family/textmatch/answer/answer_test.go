package answer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

// TestStatements finds what replies state, without a look at any accepted answer.
func TestStatements(t *testing.T) {
	tests := []struct {
		reply string
		want  []string // rank and text of each statement
	}{
		{"\\boxed{\\frac{3}{4}}", []string{"boxed 3/4"}},
		{"x\n#### 25", []string{"hashes 25"}},
		{"#### 1. Counting\nFinal answer: 25", []string{"final 25"}},
		{`{"reasoning": "3 + 4", "answer": [7]}`, []string{"marked 7"}},
		{`{'answer': 'B'}`, []string{"marked B"}},
		{"```json\n{\"answer\": \"A\", \"answer\": \"B\"}\n```", []string{"marked A", "marked B"}},
		{"<think>Answer: 1</think><answer>2\n3</answer>", []string{"marked 2 3"}},
		{"【答案】C", []string{"marked C"}},
		{"Die richtige Antwort ist B.", []string{"marked B."}},
		{"الإجابة الصحيحة هي (B)", []string{"marked (B)"}},
		{"정답은 B입니다.", []string{"marked B입니다."}},
		{"The answer (Yes or No) is No.", []string{"marked No."}},
		{"The answer to the question is 5", []string{"marked 5"}},
		{"So 25 is the answer.", []string{"marked So 25"}},
		{"Answer:\n- Paris", []string{"marked Paris"}},
		{"Answer: A. Answer: B", []string{"marked A.", "marked B"}},
		{"Wrong answer: B", nil},
		{"Half the answer is 25", nil},
		{"I doubt the answer is B", nil},
		{"The answer depends on it.", nil},
	}
	ranks := map[answer.Rank]string{answer.Unmarked: "unmarked", answer.Marked: "marked", answer.Final: "final", answer.Hashes: "hashes", answer.Boxed: "boxed"}
	for _, tt := range tests {
		var got []string
		for _, st := range answer.Read(tt.reply, answer.Ask("", "", vocabulary.Every), answer.Options{}).Statements {
			got = append(got, ranks[st.Rank]+" "+st.Text)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.reply, diff)
		}
	}
}

// TestManyForms reads more forms than a sentence may have, before another sentence of the
// line.
func TestManyForms(t *testing.T) {
	for _, form := range []string{"\\boxed{1} ", "<answer>1</answer> ", "<answer>\\boxed{1}</answer> "} {
		q := answer.Ask("", "", vocabulary.Every)
		for _, n := range []int{31, 32, 33, 40} {
			if got := answer.Read(strings.Repeat(form, n)+"are all. They go on for long.", q, answer.Options{}).Statements; len(got) == 0 {
				t.Errorf("%d of %q: no statement", n, form)
			}
		}
	}
}

// TestRawKeepsTypesetting: the expression that another program compares is what was
// written.
func TestRawKeepsTypesetting(t *testing.T) {
	for reply, want := range map[string]string{
		"\\boxed{\\frac{1}{2}}":                    "\\frac{1}{2}",
		"The answer is $\\frac{1}{2}x$.":           "\\frac{1}{2}x$.",
		"**Answer:** \\(\\sqrt{2}\\)\nThat is it.": "\\(\\sqrt{2}\\)",
	} {
		got := answer.Read(reply, answer.Ask("", "", vocabulary.Every), answer.Options{}).Statements
		if len(got) != 1 || !strings.Contains(got[0].Raw, strings.TrimRight(want, "$.")) {
			t.Errorf("%q: %+v, expected %q", reply, got, want)
		}
	}
}

// TestWordsOfTheQuestion: what the question denies, an answer may deny in its words, with
// another negator.
func TestWordsOfTheQuestion(t *testing.T) {
	q := answer.Ask("In how many orders can they be stacked if chocolate cannot be on the bottom?", "", vocabulary.Every)
	for before, opposes := range map[string]bool{
		"The number of orders in which chocolate is not on the bottom is ": false, "The orders in which chocolate isn't on the bottom are ": false, "The orders if chocolate can't be on the bottom are ": false,
		"The number of orders in which chocolate is not on the top is ": true, "The number of orders on the bottom is not ": true, "Not the bottom but ": true,
	} {
		if got := q.Around(before, "."); got != opposes {
			t.Errorf("%q: opposes %v, want %v", before, got, opposes)
		}
	}
}

// TestDeclaredMarks adds a mark and a pattern of a pack.
func TestDeclaredMarks(t *testing.T) {
	pattern := `RESULT<(.*)>`
	var o answer.Options
	in, err := answer.Declared{Language: []string{"en"}, Marks: []string{"Verdict:"}, Pattern: &pattern}.Apply(&o)
	if err != nil {
		t.Fatal(err)
	}
	q := answer.Ask("", "", in)
	for reply, want := range map[string]string{"My verdict: guilty": "guilty", "RESULT<7> and so on": "7"} {
		got := answer.Read(reply, q, o).Statements
		if !slices.ContainsFunc(got, func(st answer.Statement) bool { return st.Text == want }) {
			t.Errorf("%q: %+v, expected %q", reply, got, want)
		}
	}
	for _, d := range []answer.Declared{{Language: []string{"tlh"}}, {Marks: []string{" "}}, {Pattern: new(string)}} {
		if _, err := d.Apply(&o); err == nil {
			t.Errorf("%+v is accepted", d)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"Answer: 5", "\\boxed{\\boxed{1}", "{\"answer\": 1}", "【答案】C", "<answer>a</answer>", "$$x$$ \\[y\\]", "**a** _b_ `c`", "\ue000\ue001", "\u202e5", "</think>x"} {
		f.Add(s)
	}
	q := answer.Ask("How many apples are there?", "", vocabulary.Every)
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "")
		r := answer.Read(s, q, answer.Options{Labels: len(s)%2 == 0})
		for _, st := range r.Statements {
			if strings.ContainsAny(st.Text+st.Raw+st.Rest+st.Before+st.After, "\ue000\ue001\ue002\ue003\ue004\ue005") {
				t.Fatalf("%q: a sign that stands for a form is left in %+v", s, st)
			}
			if st.Line > len(r.Lines) {
				t.Fatalf("%q: line %d of %d", s, st.Line, len(r.Lines))
			}
		}
	})
}
