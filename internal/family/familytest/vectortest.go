package familytest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/family"
)

// A Vector is one case of the reference. What a family does not use is zero.
type Vector struct {
	Candidate       string         `json:"candidate"`
	Choices         jsontext.Value `json:"choices"`
	Answer          jsontext.Value `json:"answer"`
	AcceptedAnswers jsontext.Value `json:"accepted_answers"`
	Tolerance       jsontext.Value `json:"tolerance"`
	Rubric          jsontext.Value `json:"rubric"`
	Expect          Expect         `json:"expect"`
}

// Expect is the reference's result.
type Expect struct {
	Passed              bool    `json:"passed"`
	Error               string  `json:"error"` // class of a row that cannot be scored
	MatchedAnswerIndex  *int    `json:"matched_answer_index"`
	RejectedAnswerIndex *int    `json:"rejected_answer_index"`
	AcceptedTokenF1     float64 `json:"accepted_token_f1"`
	RejectedTokenF1     float64 `json:"rejected_token_f1"`
}

// A deviation is a vector that the rules decide otherwise, on purpose.
type deviation struct {
	Family    string `json:"family"`
	Line      int    `json:"line"` // of the vector, from 1
	Candidate string `json:"candidate"`
	Reference string `json:"reference"` // passed, failed or an error class
	Verdict   string `json:"verdict"`
	Reason    string `json:"reason"`
}

// Run gives every vector of a family to score, which returns passed, failed or
// the class of an error. Each result must equal the reference's or stand in the
// list of deviations with a reason, and each deviation must be one.
func Run(t *testing.T, family string, score func(*testing.T, Vector) string) {
	t.Helper()
	want := map[int]deviation{}
	for _, line := range readLines(t, "../testdata/deviations.jsonl") {
		var d deviation
		decode(t, line, &d)
		if d.Family == family {
			want[d.Line] = d
		}
	}
	got := map[int]deviation{}
	for i, line := range readLines(t, filepath.Join("../textmatch/testdata/vectors", family+".jsonl")) {
		var v Vector
		decode(t, line, &v)
		d := deviation{
			Family: family, Line: i + 1, Candidate: v.Candidate,
			Reference: v.Expect.result(), Verdict: score(t, v), Reason: want[i+1].Reason,
		}
		if d.Reference != d.Verdict {
			got[d.Line] = d
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deviations of %s (-listed +found):\n%s", family, diff)
	}
	for n, d := range want {
		if len(d.Reason) < 20 {
			t.Errorf("deviation %s:%d gives no reason", family, n)
		}
	}
}

func (e Expect) result() string {
	switch {
	case e.Error != "":
		return e.Error
	case e.Passed:
		return "passed"
	}
	return "failed"
}

func readLines(t *testing.T, name string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if len(lines) < 2 {
		t.Fatalf("%s holds %d lines", name, len(lines))
	}
	return lines
}

func decode(t *testing.T, line []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(line, v); err != nil {
		t.Fatalf("decoding %.200s: %v", line, err)
	}
}

// Outcome is the outcome of a verdict, with its reason where it has one.
func Outcome(v family.Verdict) string {
	if v.Reason == "" {
		return string(v.Outcome)
	}
	return string(v.Outcome) + " " + string(v.Reason)
}
