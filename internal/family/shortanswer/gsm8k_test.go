package shortanswer

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/verdict"
)

// gsmRow is a question with the solutions of four models and upstream's own
// verdict on each.
type gsmRow struct {
	Row          int         `json:"row"`
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
	Row    int    `json:"row"`
	Answer string `json:"answer"`
}

// TestGSM8K replays what real models wrote: every verdict must be upstream's.
func TestGSM8K(t *testing.T) {
	golds := map[int]string{}
	for _, line := range dataLines(t, "gsm8k/public/rows.jsonl") {
		var g gsmGold
		if err := json.Unmarshal(line, &g); err != nil {
			t.Fatal(err)
		}
		_, gold, _ := strings.Cut(g.Answer, "#### ")
		golds[g.Row] = gold
	}
	got := map[string]int{}
	for _, line := range dataLines(t, "gsm8k/public/model_solutions.jsonl") {
		var r gsmRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		accepted, err := json.Marshal([]string{golds[r.Row]})
		if err != nil {
			t.Fatal(err)
		}
		k := newTestKey(t, string(accepted), "", "", r.Question)
		for model, s := range r.solutions() {
			passed := k.Match(s.Solution).Outcome == verdict.Passed
			if passed != s.IsCorrect {
				t.Errorf("row %d, %s: passed is %v, upstream says %v", r.Row, model, passed, s.IsCorrect)
			}
			if passed {
				got[model]++
			}
		}
		if v := k.Match(r.GroundTruth); v.Outcome != verdict.Passed {
			t.Errorf("row %d: the ground truth fails: %s", r.Row, v.Message)
		}
	}
	want := map[string]int{
		"6b_finetuning": 171, "6b_verification": 325, "175b_finetuning": 285, "175b_verification": 462,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("passes (-want +got):\n%s", diff)
	}
}

func (r gsmRow) solutions() map[string]gsmSolution {
	return map[string]gsmSolution{
		"6b_finetuning": r.SmallTuned, "6b_verification": r.SmallChecked,
		"175b_finetuning": r.LargeTuned, "175b_verification": r.LargeChecked,
	}
}

// dataLines returns the lines of a file of the data sets, which are not part of
// the project.
func dataLines(t *testing.T, name string) [][]byte {
	t.Helper()
	dir := os.Getenv("SECUREBENCH_DATA")
	if dir == "" {
		t.Skip("SECUREBENCH_DATA is not set: it names the folder with the data sets")
	}
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}

// newTestKey makes a key of a row's values in JSON; "" is an absent one.
func newTestKey(t testing.TB, accepted, tolerance, match, question string) *key {
	t.Helper()
	k, err := newKey(jsontext.Value(accepted), jsontext.Value(tolerance), jsontext.Value(match))
	if err != nil {
		t.Fatal(err)
	}
	k.ask(question, "")
	return k
}
