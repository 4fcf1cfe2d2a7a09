package judge

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestRubrics: a text is one criterion, an object has its own, and what cannot be decided
// is refused.
func TestRubrics(t *testing.T) {
	r, err := ParseRubric(jsontext.Value(`"Says four."`))
	if err != nil || len(r.Criteria) != 1 || !r.passes([]bool{true}) || r.passes([]bool{false}) || r.MaxWords != 2000 {
		t.Errorf("%+v, %v", r, err)
	}
	two := `{"type":"judge","criteria":[{"id":"a","text":"A."},{"id":"b","text":"B.","required":true}]`
	for rubric, passes := range map[string][4]bool{ // neither, a, b, both
		two + `}`:                            {false, false, false, true},
		two + `,"pass":"all"}`:               {false, false, false, true},
		two + `,"pass":1,"reference":false}`: {false, false, true, true},
	} {
		r, err := ParseRubric(jsontext.Value(rubric))
		if err != nil || !Needed(jsontext.Value(rubric)) {
			t.Fatal(rubric, err)
		}
		for i, want := range passes {
			if got := r.passes([]bool{i&1 > 0, i&2 > 0}); got != want {
				t.Errorf("%s with %02b: %t", rubric, i, got)
			}
		}
	}
	for rubric, want := range map[string]string{
		`" "`:                    "must be a text",
		`{"type":"judge"}`:       "must be a list of 1 to 20",
		`{"type":"judge","x":1}`: "must have the type judge",
		two + `,"pass":3}`:       "rubric.pass must be all, or from 1",
		two + `,"pass":0}`:       "rubric.pass must be all, or from 1",
		two + `,"max_words":0}`:  "rubric.max_words",
		two + `,"criteria":[]}`:  "must have the type judge", // a repeated key
		`{"type":"judge","criteria":[{"id":"a b","text":"A."}]}`:                                                    "[0].id must have",
		`{"type":"judge","criteria":[{"id":"a","text":"A."},{"id":"a","text":"B."}]}`:                               "[1].id is that of another",
		`{"type":"judge","criteria":[{"id":"a","text":" "}]}`:                                                       "[0].text",
		`{"type":"judge","criteria":[` + strings.Repeat(`{"id":"a","text":"A."},`, 20) + `{"id":"z","text":"Z."}]}`: "1 to 20",
	} {
		if _, err := ParseRubric(jsontext.Value(rubric)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", rubric, err, want)
		}
	}
	if Needed(jsontext.Value(`{"type":"contains_any"}`)) || Needed(jsontext.Value(`{}`)) || Needed(nil) {
		t.Error("a rubric of another type needs a judge")
	}
}
