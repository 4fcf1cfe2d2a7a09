package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/datatest"
)

// harnessRows is how many GSM8K rows go through the command harness at most.
const harnessRows = 100

// TestGSM8KThroughTheHarness: a recorded model's answers, printed by a command
// in a sandbox, get the verdicts that the data set itself has for them, which
// are those of the replay.
func TestGSM8KThroughTheHarness(t *testing.T) {
	t.Parallel()
	solutions := datatest.Solutions(t)
	image := needEngine(t)
	dir := t.TempDir()
	want := writeAnswered(t, dir, solutions, image)
	res := securebench(t, nil, "run", filepath.Join(dir, "tester.yaml"), "-q")
	if res.code != 0 {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	passed := 0
	for id, rs := range readRecords(t, filepath.Join(dir, "out", "candidates.jsonl")) {
		if len(rs) != 1 || rs[0].Passed != want[id] {
			t.Errorf("%s: passed %v, the data set says %v", id, rs[0].Passed, want[id])
		}
		if want[id] {
			passed++
		}
	}
	if summary := fmt.Sprintf("total=%d verification=complete verified=%d passed=%d ", len(want), len(want), passed); !strings.Contains(res.stdout, summary) {
		t.Errorf("summary %q, want %q", res.stdout, summary)
	}
}

// writeAnswered writes a pack whose public context is a model's answer, and
// returns what the data set says of each.
func writeAnswered(t *testing.T, dir, solutions, image string) map[string]bool {
	t.Helper()
	f, err := os.Open(solutions)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]bool{}
	var rows strings.Builder
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() && len(want) < harnessRows {
		var row struct {
			Question    string `json:"question"`
			GroundTruth string `json:"ground_truth"`
			Model       struct {
				Correct  bool   `json:"is_correct"`
				Solution string `json:"solution"`
			} `json:"175b_verification"`
		}
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		gold := row.GroundTruth[strings.LastIndex(row.GroundTruth, "A:")+len("A:"):]
		id := fmt.Sprintf("row/%d", len(want))
		want[id] = row.Model.Correct
		b, err := json.Marshal(map[string]any{"id": id,
			"input": map[string]any{"question": row.Question, "context": row.Model.Solution},
			"eval":  map[string]any{"accepted_answers": []string{strings.TrimSpace(gold)}}})
		if err != nil {
			t.Fatal(err)
		}
		rows.Write(append(b, '\n'))
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: answered\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+image+"\n")
	write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: answered, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config:
    timeout_seconds: 600
    command: ["python3", "-c", "import json; print(json.load(open('task.json'))['context'])"]
`)
	return want
}
