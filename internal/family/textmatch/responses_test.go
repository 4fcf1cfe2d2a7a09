package textmatch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/family"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/verdict"
)

// A response is what a real model answered to a question of a benchmark, with
// the reward of that benchmark's own scorer.
type response struct {
	Benchmark string  `json:"benchmark"`
	Index     int     `json:"idx"`
	Prompt    string  `json:"prompt"`
	Expected  string  `json:"expected_answer"`
	Response  string  `json:"model_response"`
	Reward    float64 `json:"reward"`
	Metadata  struct {
		Choices []string `json:"choices"`
		Options []string `json:"options"`
		Aliases []string `json:"_aliases"`
	} `json:"metadata"`
}

// TestResponses replays real answers to MMLU, MMLU-Pro, GSM8K, SimpleQA and
// TriviaQA. What the scorer there accepts passes. Beyond that pass answers in
// bold, which it does not read, and the answers to SimpleQA that give the
// expected name, which it leaves to a judge.
func TestResponses(t *testing.T) {
	dir := os.Getenv("SECUREBENCH_DATA")
	if dir == "" {
		t.Skip("SECUREBENCH_DATA is not set: it names the folder with the data sets")
	}
	data, err := os.ReadFile(filepath.Join(dir, "responses-samples", "public", "rows.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	beyond := map[string]string{}
	for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var r response
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Benchmark == "humaneval" {
			continue // code
		}
		name := fmt.Sprintf("%s/%d", r.Benchmark, r.Index)
		v := r.scorer(t)(r.Response)
		switch passed := v.Outcome == verdict.Passed; {
		case r.Reward == 1 && !passed:
			t.Errorf("%s fails, which the scorer there accepts: %s", name, v.Message)
		case r.Reward != 1 && passed:
			beyond[name] = r.Expected
		}
	}
	want := map[string]string{"gsm8k/1": "3", "gsm8k/3": "540", "gsm8k/4": "20", "simpleqa/3": "Adolf Anderssen"}
	if diff := cmp.Diff(want, beyond); diff != "" {
		t.Errorf("passes beyond the scorer's (-want +got):\n%s", diff)
	}
}

func (r response) scorer(t *testing.T) func(string) family.Verdict {
	t.Helper()
	public := map[string]any{"question": r.Prompt}
	if choices := append(r.Metadata.Choices, r.Metadata.Options...); len(choices) > 0 {
		public["choices"] = choices
		return newScorer(t, multiplechoice.Family(), public, map[string]any{"answer": r.Expected})
	}
	accepted := append([]string{r.Expected}, r.Metadata.Aliases...)
	return newScorer(t, shortanswer.Family(), public, map[string]any{"accepted_answers": accepted})
}
