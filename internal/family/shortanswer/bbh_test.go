package shortanswer

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/datatest"
	"securebench/internal/verdict"
)

// bbhRow is a question of BIG-Bench Hard with what a real model wrote about it
// and the verdict of the reference on that.
type bbhRow struct {
	ID     string `json:"id"`
	Family string `json:"family"`
	Input  struct {
		Question string `json:"question"`
	} `json:"input"`
	Eval struct {
		AcceptedAnswers jsontext.Value `json:"accepted_answers"`
	} `json:"eval"`
	Response        string `json:"response"`
	ReferencePassed bool   `json:"reference_passed"`
}

// TestBBHOutputs replays real chains of thought: no answer passes that the
// reference fails, and of those that it passes at most one in 100 fails.
func TestBBHOutputs(t *testing.T) {
	right, passed := 0, 0
	for _, line := range datatest.Lines(t, datatest.Rows(t, "bbh-outputs")) {
		var r bbhRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Family != "short_answer" {
			continue
		}
		k := newTestKey(t, string(r.Eval.AcceptedAnswers), "", "", r.Input.Question)
		v := k.Match(r.Response)
		switch got := v.Outcome == verdict.Passed; {
		case got && !r.ReferencePassed:
			t.Errorf("%s passed, which the reference fails", r.ID)
		case got:
			passed++
		case r.ReferencePassed:
			t.Logf("%s failed, which the reference passes: %s", r.ID, v.Message)
		}
		if r.ReferencePassed {
			right++
		}
	}
	t.Logf("%d of the %d answers that the reference passes", passed, right)
	if failed := right - passed; failed > (right+99)/100 {
		t.Errorf("%d of %d right answers failed", failed, right)
	}
}
