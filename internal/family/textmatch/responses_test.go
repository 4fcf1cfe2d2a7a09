package textmatch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/datatest"
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
// TriviaQA. What the scorer there accepts passes. Beyond that only answers pass
// that hold the expected one: in bold, which it does not read, or to SimpleQA,
// which it leaves to a judge.
func TestResponses(t *testing.T) {
	accepted, beyond := 0, map[string]response{}
	for _, line := range datatest.Lines(t, datatest.Rows(t, "responses-samples")) {
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
		case r.Reward == 1 && passed:
			accepted++
		case r.Reward == 1:
			t.Errorf("%s fails, which the scorer there accepts: %s", name, v.Message)
		case passed:
			beyond[name] = r
		case strings.HasSuffix(r.Response, "The answer is **"+r.Expected+"**."):
			t.Errorf("%s fails, which gives the expected answer in bold: %s", name, v.Message)
		}
	}
	for name, r := range beyond {
		if !strings.Contains(r.Response, r.Expected) {
			t.Errorf("%s passes, which the scorer there does not accept, and does not hold %q", name, r.Expected)
		}
	}
	t.Logf("%d answers that the scorer there accepts, and %d more", accepted, len(beyond))
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
