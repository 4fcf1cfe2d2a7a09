package multiplechoice

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
)

func TestGoldChoices(t *testing.T) {
	choices := []string{"4", " Seven. ", "b", "seven", "…"}
	tests := []struct {
		answer string
		want   []int
	}{
		{`"B"`, []int{1}}, {`"b"`, []int{1}}, {`" (e) "`, []int{4}}, {`"final answer is: [C]"`, []int{2}},
		{`"isC"`, []int{2}}, {`"answerC"`, []int{2}}, {`"-C"`, []int{2}}, {`"[C)"`, []int{2}},
		{`"option A."`, []int{0}}, {`"Answer: A"`, nil}, {`"( C )"`, nil}, {`"F"`, nil}, {`"AB"`, nil}, {`"…"`, []int{4}},
		{`"4"`, []int{0}}, {`"SEVEN"`, []int{1, 3}}, {`"\"seven\""`, []int{1, 3}}, {`"0"`, nil}, {`"."`, nil},
		{`0`, []int{0}}, {`4`, []int{4}}, {`4.0`, []int{4}}, {`4e0`, []int{4}}, {`5`, nil}, {`-1`, nil}, {`2.5`, nil}, {`1e300`, nil},
		{`-0`, []int{0}}, {`true`, nil}, {`null`, nil}, {`{}`, nil}, {`[]`, nil},
		{`["C",1,1,"seven",true,9]`, []int{1, 2, 3}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Right(choices, jsontext.Value(tt.answer))); diff != "" {
			t.Errorf("%s: %s", tt.answer, diff)
		}
	}
}

func TestReference(t *testing.T) {
	for answer, want := range map[string]string{`"two"`: "B", `["C","A"]`: "A", `2`: "C", `"nowhere"`: ""} {
		c, err := task.New(task.Config{ID: "a", Family: "multiple_choice", Pack: task.Pack{ID: "p"}, Resources: []task.Resource{
			{Name: "choices", Lane: task.Public, Value: jsontext.Value(`["one","two","three"]`)},
			{Name: "answer", Value: jsontext.Value(answer)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := Family().Reference(c.Evaluator())
		if familytest.Content(t, got.Candidate) != want || ok != (want != "") || ok && got.Candidate.Kind != task.Text {
			t.Errorf("%s: got %s %q, %t", answer, got.Candidate.Kind, familytest.Content(t, got.Candidate), ok)
		}
	}
}

// The check and the reference agree: a row is refused just when it has no
// reference.
func TestCheckRefusesRowsWithoutReference(t *testing.T) {
	for _, answer := range []string{`"A"`, `"x"`, `"."`, `1`, `2`, `1.5`, `["x",1]`, `[]`} {
		row := family.Row{Input: map[string]jsontext.Value{"choices": jsontext.Value(`["one","."]`)},
			Eval: map[string]jsontext.Value{"answer": jsontext.Value(answer)}}
		want := len(Right([]string{"one", "."}, jsontext.Value(answer))) == 0
		if got := len(Family().Check(row)) > 0; got != want {
			t.Errorf("%s: refused is %t", answer, got)
		}
	}
}
