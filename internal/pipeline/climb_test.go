package pipeline_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/agent"
	columns "securebench/internal/agent/answers"
	"securebench/internal/family"
	"securebench/internal/family/freeresponse"
	"securebench/internal/family/shortanswer"
	"securebench/internal/task"
)

// replayed scores a candidate for task "q" through a run and returns its record.
func replayed(t *testing.T, fam family.Family, tk task.Task, candidate string) map[string]any {
	t.Helper()
	b := newBench(t, answers)
	b.cfg.Families = family.NewRegistry(fam)
	b.cfg.Verifiers = map[string]family.Verifier{fam.Name: fam.NewVerifier(family.Resources{})}
	b.cfg.Agent = replay(t, candidate)
	if _, err := b.run(t.Context(), tk); err != nil {
		t.Fatal(err)
	}
	return b.lines()[0]
}

// replay is an agent that submits a text for task "q".
func replay(t *testing.T, text string) *agent.Replay {
	t.Helper()
	line, err := json.Marshal(map[string]string{"task_id": "q", "text": text})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "replay.jsonl")
	if err := os.WriteFile(file, line, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := agent.OpenReplay(file, columns.Map{}, agent.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// climb finds a hidden answer from the published records of failed attempts
// alone: it keeps each word that increases a measure in the record. It returns
// the number of records that it needed until a candidate passed, or -1.
func climb(t *testing.T, fam family.Family, tk task.Task, vocabulary []string, near func(line map[string]any) float64) int {
	t.Helper()
	var kept []string
	best, asked := 0.0, 0
	for range 2 {
		for _, word := range vocabulary {
			if slices.Contains(kept, word) {
				continue
			}
			candidate := strings.Join(append(slices.Clone(kept), word), " ")
			line := replayed(t, fam, tk, candidate)
			asked++
			if line["outcome"] == "passed" {
				return asked
			}
			if score := near(line); score > best {
				kept, best = append(kept, word), score
			}
		}
	}
	return -1
}

// TestFailedRecordsDoNotLead: if the records of failed attempts showed how
// close each came, they would lead to the hidden answer of a free_response
// row; the published records give no such hint.
func TestFailedRecordsDoNotLead(t *testing.T) {
	vocabulary := strings.Fields("apple river seven lantern copper window garden thunder marble silver")
	tk := newTask(t, "q", "free_response", map[string]string{"prompt": "Say the words."},
		map[string]string{"rubric": `{"type":"contains_any","accepted_answers":["copper garden lantern"]}`})
	near := func(line map[string]any) float64 {
		metadata, _ := line["verifier_metadata"].(map[string]any)
		f1, _ := metadata["accepted_token_f1"].(float64)
		return f1
	}
	weak := freeresponse.Family()
	weak.PublicMetadata = append(weak.PublicMetadata, "accepted_token_f1")
	if asked := climb(t, weak, tk, vocabulary, near); asked < 0 {
		t.Error("the climb does not work against records that show the F1")
	}
	if asked := climb(t, freeresponse.Family(), tk, vocabulary, near); asked >= 0 {
		t.Errorf("found the answer after %d records", asked)
	}
}

// TestFailedRecordsTellNothingOfTheGold: the published part of a failed
// attempt does not depend on the hidden values, and that of a pass shows its
// measures.
func TestFailedRecordsTellNothingOfTheGold(t *testing.T) {
	tests := []struct {
		family, candidate string
		public            map[string]string
		hidden            []map[string]string // by row; none is met
	}{
		{"free_response", "red green blue", map[string]string{"prompt": "p"}, []map[string]string{
			{"rubric": `{"accepted_answers":["yellow"]}`},
			{"rubric": `{"accepted_answers":["red green brown","x","y"],"min_token_f1":0.9}`},
			{"rubric": `{"accepted_answers":["yellow"],"rejected_answers":["red green"]}`},
			{"rubric": `{"accepted_answers":["red"],"rejected_answers":["blue","a","b"]}`},
		}},
		{"short_answer", "42", map[string]string{"question": "q"}, []map[string]string{
			{"accepted_answers": `[43]`}, {"accepted_answers": `[1,2,3]`}, {"accepted_answers": `[42.5]`, "tolerance": `0.1`},
		}},
		{"short_answer", "red and green", map[string]string{"question": "q"}, []map[string]string{
			{"accepted_answers": `["red"]`}, {"accepted_answers": `["blue","black"]`},
		}},
	}
	families := family.NewRegistry(freeresponse.Family(), shortanswer.Family())
	for _, tt := range tests {
		fam := families[tt.family]
		var first string
		for i, hidden := range tt.hidden {
			line := replayed(t, fam, newTask(t, "q", tt.family, tt.public, hidden), tt.candidate)
			if line["outcome"] != "failed" {
				t.Fatalf("%s %v: %v", tt.family, hidden, line["outcome"])
			}
			if got := published(t, line); i == 0 {
				first = got
			} else if got != first {
				t.Errorf("%s %v:\n%s\nand for %v:\n%s", tt.family, tt.hidden[0], first, hidden, got)
			}
		}
	}
	line := replayed(t, freeresponse.Family(), newTask(t, "q", "free_response", map[string]string{"prompt": "p"},
		map[string]string{"rubric": `{"accepted_answers":["yellow"]}`}), "yellow")
	metadata, _ := line["verifier_metadata"].(map[string]any)
	timings, _ := line["timings_ms"].(map[string]any)
	if metadata["accepted_token_f1"] != 1.0 || timings["verifier"] == nil {
		t.Errorf("a pass shows %v and %v", metadata, timings)
	}
}

// published returns the part of a record that an outsider can compare: without
// random and keyed values, and without the timings of earlier phases.
func published(t *testing.T, line map[string]any) string {
	t.Helper()
	line = maps.Clone(line)
	for _, key := range []string{"digests", "mac", "prev"} {
		delete(line, key)
	}
	timings, _ := line["timings_ms"].(map[string]any)
	for _, phase := range []string{"verifier", "verifier_sandboxes"} {
		if _, ok := timings[phase]; ok {
			t.Errorf("the record shows %s", phase)
		}
	}
	delete(line, "timings_ms")
	raw, _ := line["restricted"].([]any)
	for _, r := range raw {
		file, _ := r.(map[string]any)
		if path := fmt.Sprint(file["path"]); strings.Contains(path, "/verifier-") && file["bytes"] != nil {
			t.Errorf("the record shows the length of %s", path)
		}
		delete(file, "digest")
	}
	summary, _ := line["resource_summary"].([]any) // the names of hidden values are public
	line["resource_summary"] = len(summary) > 0
	b, err := json.Marshal(line)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWithheldMeasuresAreKept: the measures that a failed record does not show
// are in restricted/, for the operator.
func TestWithheldMeasuresAreKept(t *testing.T) {
	b := newBench(t, answers)
	b.cfg.Agent = replay(t, "5")
	if _, err := b.run(t.Context(), question(t, "q", "4", `"4"`)); err != nil {
		t.Fatal(err)
	}
	raw, _ := b.lines()[0]["restricted"].([]any)
	if len(raw) != 1 {
		t.Fatalf("restricted: %v", raw)
	}
	file, _ := raw[0].(map[string]any)
	data, err := os.ReadFile(filepath.Join(b.out, fmt.Sprint(file["path"])))
	if err != nil {
		t.Fatal(err)
	}
	var held struct {
		Metadata map[string]any   `json:"verifier_metadata"`
		Timings  map[string]int64 `json:"timings_ms"`
	}
	if err := json.Unmarshal(data, &held); err != nil {
		t.Fatal(err)
	}
	if held.Metadata["accepted_answer_count"] != 1.0 || len(held.Timings) != 2 {
		t.Errorf("%s", data)
	}
}
