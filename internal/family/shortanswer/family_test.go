package shortanswer

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
)

func TestReferenceIsTheFirstAnswer(t *testing.T) {
	for accepted, want := range map[string]string{
		`["Paris","Lyon"]`: "Paris", `[366,"x"]`: "366", `[3.0]`: "3.0", `["é\n"]`: "é\n", `[]`: "",
	} {
		c, err := task.New(task.Config{ID: "a", Family: "short_answer", Pack: task.Pack{ID: "p"},
			Resources: []task.Resource{{Name: "accepted_answers", Value: jsontext.Value(accepted)}}})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := Family().Reference(c.Evaluator())
		if familytest.Content(t, got.Candidate) != want || ok != (want != "") || ok && got.Candidate.Kind != task.Text {
			t.Errorf("%s: got %s %q, %t", accepted, got.Candidate.Kind, familytest.Content(t, got.Candidate), ok)
		}
	}
}

// T08: gold answers that say nothing. Each has an honest twin that differs by
// a character.
func TestCheck(t *testing.T) {
	const empty = "is empty after normalisation"
	tests := []struct{ accepted, match, want string }{
		{`["x"]`, ``, ""},
		{`[" . "]`, ``, empty}, {`[" .- "]`, ``, ""},
		{`["\u00a0\u2003"]`, ``, empty}, {`["\u00a0\u2003x"]`, ``, ""},
		{`["\"'` + "`" + `"]`, ``, empty}, {`["\"'` + "`" + `0"]`, ``, ""},
		{`["ok","…",":"]`, ``, empty}, {`["ok","…"]`, ``, ""},
		{`["five"]`, `{"type":"number"}`, "must be a number because eval.match.type is number"}, {`["5"]`, `{"type":"number"}`, ""},
		{`["five"]`, `{"type":"text"}`, ""},
		{`["x"]`, `{"type":"text","max_extra_words":2}`,
			"cannot be scored: match.max_extra_words must be from 0 to 1000 and requires match.type span"},
		{`["x"]`, `{"type":"span","max_extra_words":2}`, ""},
	}
	for _, tt := range tests {
		row := family.Row{Eval: map[string]jsontext.Value{"accepted_answers": jsontext.Value(tt.accepted)}}
		if tt.match != "" {
			row.Eval["match"] = jsontext.Value(tt.match)
		}
		got := ""
		for _, p := range Family().Check(row) {
			got += p.Message
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %s: %s", tt.accepted, tt.match, diff)
		}
	}
}

// TestComparatorDoubts: a row whose comparator is not what its question or its accepted
// answers call for is doubted, and one that says what it wants is not.
func TestComparatorDoubts(t *testing.T) {
	const latex, asked = "are LaTeX, which is compared as it is written", "math compares values, and the question asks for a form"
	for _, tt := range []struct{ question, accepted, match, want string }{
		{"What is half of one and a half?", `["\\frac{3}{4}"]`, ``, latex}, {"What is half of one and a half?", `["\\frac{3}{4}"]`, `{"type":"math"}`, ""},
		{"What is half of one and a half?", `["\\frac{3}{4}"]`, `{"type":"text"}`, ""}, {"What is half of one and a half?", `["3/4", 0.75]`, ``, ""},
		{"Simplify 6/8.", `["\\frac{3}{4}"]`, `{"type":"math"}`, asked + " (Simplify)"}, {"Simplify 6/8.", `["\\frac{3}{4}"]`, ``, ""}, {"What is 6/8?", `["\\frac{3}{4}"]`, `{"type":"math"}`, ""},
		{"Which command prints a fraction?", `["\\usepackage"]`, ``, ""}, {"Who is a factory's owner?", `["$x$"]`, `{"type":"math"}`, ""},
	} {
		row := family.Row{Input: map[string]jsontext.Value{"question": familytest.JSON(t, tt.question)}, Eval: map[string]jsontext.Value{"accepted_answers": jsontext.Value(tt.accepted)}}
		if tt.match != "" {
			row.Eval["match"] = jsontext.Value(tt.match)
		}
		got := ""
		for _, p := range Family().Doubts(row) {
			got += p.Message
		}
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s %s %s: %q", tt.question, tt.accepted, tt.match, got)
		}
	}
}
