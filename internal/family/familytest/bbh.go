package familytest

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/datatest"
	"securebench/internal/family"
	"securebench/internal/verdict"
)

// Replayed is a question of BIG-Bench Hard, what a real model wrote about it, and
// whether the reference passes that.
type Replayed struct {
	ID     string `json:"id"`
	Family string `json:"family"`
	Input  struct {
		Question string   `json:"question"`
		Choices  []string `json:"choices"`
	} `json:"input"`
	Eval struct {
		Answer          jsontext.Value `json:"answer"`
		AcceptedAnswers jsontext.Value `json:"accepted_answers"`
	} `json:"eval"`
	Response        string `json:"response"`
	ReferencePassed bool   `json:"reference_passed"`
}

// Replay gives every question of a family to match: no answer passes that the
// reference fails, and of those that it passes at most one in 100 fails.
func Replay(t *testing.T, name string, match func(Replayed) family.Verdict) {
	t.Helper()
	right, passed := 0, 0
	for _, line := range datatest.Lines(t, datatest.Rows(t, "bbh-outputs")) {
		var r Replayed
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Family != name {
			continue
		}
		v := match(r)
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
