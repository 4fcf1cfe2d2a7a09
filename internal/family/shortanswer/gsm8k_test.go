package shortanswer

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/datatest"
	"securebench/internal/verdict"
)

// gsmRow is a question with the solutions of four models and upstream's own
// verdict on each.
type gsmRow struct {
	Question     string      `json:"question"`
	GroundTruth  string      `json:"ground_truth"`
	SmallTuned   gsmSolution `json:"6b_finetuning"`
	SmallChecked gsmSolution `json:"6b_verification"`
	LargeTuned   gsmSolution `json:"175b_finetuning"`
	LargeChecked gsmSolution `json:"175b_verification"`
}

type gsmSolution struct {
	IsCorrect bool   `json:"is_correct"`
	Solution  string `json:"solution"`
}

type gsmGold struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// TestGSM8K replays what real models wrote: every verdict must be upstream's.
func TestGSM8K(t *testing.T) {
	golds := map[string]string{}
	for _, line := range datatest.Lines(t, datatest.Rows(t, "gsm8k")) {
		var g gsmGold
		if err := json.Unmarshal(line, &g); err != nil {
			t.Fatal(err)
		}
		_, gold, _ := strings.Cut(g.Answer, "#### ")
		golds[g.Question] = gold
	}
	verdicts, passes := 0, map[string]int{}
	for n, line := range datatest.Lines(t, datatest.Solutions(t)) {
		var r gsmRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		gold, ok := golds[r.Question]
		if !ok {
			continue // the rows are another part of the data set
		}
		accepted, err := json.Marshal([]string{gold})
		if err != nil {
			t.Fatal(err)
		}
		k := newTestKey(t, string(accepted), "", "", r.Question)
		for model, s := range r.solutions() {
			passed := k.match(s.Solution, false).Outcome == verdict.Passed
			if passed != s.IsCorrect {
				t.Errorf("line %d, %s: passed is %v, upstream says %v", n+1, model, passed, s.IsCorrect)
			}
			verdicts++
			if passed {
				passes[model]++
			}
		}
		if v := k.match(r.GroundTruth, false); v.Outcome != verdict.Passed {
			t.Errorf("line %d: the ground truth fails: %s", n+1, v.Message)
		}
	}
	t.Logf("%d verdicts; passes: %v", verdicts, passes)
	if verdicts == 0 {
		t.Skip("no solution is to a question of the rows")
	}
}

func (r gsmRow) solutions() map[string]gsmSolution {
	return map[string]gsmSolution{
		"6b_finetuning": r.SmallTuned, "6b_verification": r.SmallChecked,
		"175b_finetuning": r.LargeTuned, "175b_verification": r.LargeChecked,
	}
}

// newTestKey makes a key of a row's values in JSON; "" is an absent one.
func newTestKey(t testing.TB, accepted, tolerance, match, question string) *key {
	t.Helper()
	k, err := newKey(jsontext.Value(accepted), jsontext.Value(tolerance), jsontext.Value(match), question, "")
	if err != nil {
		t.Fatal(err)
	}
	return k
}
