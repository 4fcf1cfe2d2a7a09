package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lengths is a checker that counts words: as many as the row wants, or some of them.
const lengths = `
def check(answer, text, row):
    wanted = str(row["eval"]["match"].get("arguments", {"words": 2})["words"])
    if text == "raise":
        raise ValueError("the row wants " + wanted)
    if answer == "stated":
        return 1, "by its mark"
    if text == "cut off":
        return answer is None, "it has no mark"
    n = len(text.split())
    return (min(n, int(wanted)) / int(wanted) if n <= int(wanted) else 0), "%d of %s words" % (n, wanted)
`

// checkedRecord is what a test reads of a record.
type checkedRecord struct {
	TaskID      string   `json:"task_id"`
	Outcome     string   `json:"outcome"`
	Reason      string   `json:"failure_reason"`
	Message     string   `json:"failure_message"`
	Containment string   `json:"containment"`
	Labels      []string `json:"labels"`
	Measure     *struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
	} `json:"measure"`
}

// TestCheckerOfText: a file of the pack judges texts, in a run as when it is verified
// again; what it says is not published, and what goes wrong in it is the pack's fault.
func TestCheckerOfText(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir := t.TempDir()
	pack := filepath.Join(dir, "pack")
	if err := os.MkdirAll(filepath.Join(pack, "hidden"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(pack, "hidden", "words.py"), lengths)
	write(t, filepath.Join(pack, "manifest.yaml"), "id: checked\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+image+"\n")
	var rows, answers strings.Builder
	want, measures := map[string]string{}, map[string]float64{"right": 1, "enough": 0.5, "stated": 1, "cut": 1} // of passes
	for _, tt := range []struct{ id, text, match, outcome string }{
		{"right", "two words", `{"type": "checker", "path": "words.py"}`, "passed/"},
		{"short", "one", `{"type": "checker", "path": "words.py"}`, "failed/wrong_answer"},
		{"enough", "one", `{"type": "checker", "path": "words.py", "pass_at": 0.5, "arguments": {"words": 2}}`, "passed/"},
		{"stated", "I say much.\\nAnswer: stated", `{"type": "checker", "path": "words.py"}`, "passed/"},
		{"code", "import os; os._exit(0)", `{"type": "checker", "path": "words.py"}`, "failed/wrong_answer"},
		{"cut", `cut off", "stop_reason": "length`, `{"type": "checker", "path": "words.py"}`, "passed/"},
		{"raises", "raise", `{"type": "checker", "path": "words.py"}`, "pending/pack"},
	} {
		rows.WriteString(`{"id": "` + tt.id + `", "input": {"question": "Write 2 words."}, "eval": {"accepted_answers": ["two words"], "match": ` + tt.match + "}}\n")
		answers.WriteString(`{"task_id": "` + tt.id + `", "text": "` + tt.text + "\"}\n")
		want[tt.id] = tt.outcome
	}
	write(t, filepath.Join(pack, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "answers.jsonl"), answers.String())
	out := filepath.Join(dir, "out")
	if res := securebench(t, nil, "run", pack, "--agent", "replay:"+filepath.Join(dir, "answers.jsonl"), "-o", out, "-q"); res.code != exitPack { // a row of it
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	data, err := os.ReadFile(filepath.Join(out, "candidates.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "of 2 words") || strings.Contains(string(data), "the row wants") {
		t.Error("the records have what the checker says")
	}
	for line := range strings.Lines(string(data)) {
		var r checkedRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		value, passed := measures[r.TaskID]
		if passed != (r.Measure != nil) || passed && (r.Measure.Name != "checker" || r.Measure.Value != value) {
			t.Errorf("%s: measure %+v", r.TaskID, r.Measure)
		}
		if got := r.Outcome + "/" + r.Reason; got != want[r.TaskID] || r.Containment != "passive" || !slices.Contains(r.Labels, "pack_checker") {
			t.Errorf("%s: %s %q %s %v, want %s", r.TaskID, got, r.Message, r.Containment, r.Labels, want[r.TaskID])
		}
	}
	if res := securebench(t, nil, "reverify", out, "--pack", pack); res.code != exitDone || !strings.Contains(res.stdout, " 0 different") {
		t.Errorf("reverify: exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	checkMeasures(t, out)
	res := securebench(t, nil, "validate", pack) // half of the words are enough for one row
	if res.code != exitProblems || !strings.Contains(res.stdout+res.stderr, "right: warning: the tests pass where the words of the solution are in the reverse order: let the checker look") {
		t.Errorf("validate: exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	write(t, filepath.Join(pack, "tasks.jsonl"), strings.ReplaceAll(rows.String(), "words.py", "none.py"))
	if res := securebench(t, nil, "pack", "check", pack); res.code != exitPack || !strings.Contains(res.stderr, "none.py") {
		t.Errorf("a checker that is missing: exit %d: %s", res.code, res.stderr)
	}
}

// checkMeasures: the operator sees the mean over all verdicts; nothing that is published
// tells the measure of a candidate that did not pass.
func checkMeasures(t *testing.T, out string) {
	t.Helper()
	const all, row = "MEASURE  MEAN    ATTEMPTS", "  checker  0.6667  6 of 7" // (1 + 0.5 + 0.5 + 1 + 0 + 1) / 6
	res := securebench(t, nil, "report", out)
	table := strings.Join(strings.Fields(res.stdout), " ")
	if !strings.Contains(table, strings.Join(strings.Fields(all), " ")) || !strings.Contains(table, strings.Join(strings.Fields(row), " ")) {
		t.Errorf("report: %s%s", res.stdout, res.stderr)
	}
	published := filepath.Join(t.TempDir(), "published")
	if err := os.CopyFS(published, os.DirFS(out)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"restricted", "history", "workspaces"} {
		if err := os.RemoveAll(filepath.Join(published, name)); err != nil {
			t.Fatal(err)
		}
	}
	if res := securebench(t, nil, "report", published); strings.Contains(res.stdout, "MEASURE") || !strings.Contains(res.stdout, "TOTAL") {
		t.Errorf("report of a published copy: %s%s", res.stdout, res.stderr)
	}
	res = securebench(t, nil, "report", "--csv", out)
	if !strings.Contains(res.stdout, ",checker,0.5,") || strings.Count(res.stdout, ",checker,") != 4 {
		t.Errorf("CSV: %s%s", res.stdout, res.stderr)
	}
}
