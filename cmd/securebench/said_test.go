package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/sampletest"
)

// said are answers of chat models to a row that wants add(a, b), and whether
// they are right.
func said() map[string]bool {
	const right, wrong = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return 4\n"
	return map[string]bool{
		right:                           true,
		wrong:                           false,
		"```python\n" + right + "```\n": true,
		"```python\n" + wrong + "```":   false,
		"Sure!\n\n```python\n" + right + "```\n\nIt adds.\n":                                 true,
		"```python\n" + wrong + "```\nBetter:\n```python\n" + right + "```\n":                true,
		"```python\n" + right + "```\nBetter:\n```python\n" + wrong + "```\n":                false,
		"```python\n" + right + "```\n```python\nfrom solution import add\nadd(1, 2)\n```\n": true,
		"<think>\n```python\n" + wrong + "```\n</think>\n" + right + "<|im_end|>":            true,
		"```python\n" + right:   true,
		"    return a + b\n":    true,
		"return a + b":          true,
		"    return floor(a)\n": false,
		"    return floor(a + b)\n\n\ndef more():\n    pass\n":   true,
		"def add(a, b):\n    return floor(a) + floor(b)\n":       true,
		"I cannot do this.\n":                                    false,
		"<think>\n```python\n" + right + "```\n</think>\n":       false,
		"def add(a, b):\r\n    return a + b\r\n":                 true,
		"```python\r\ndef add(a, b):\r\n    return a + b\r\n```": true,
		"x = 1\n": false,
	}
}

// TestReplayEqualsCommand: the same text gets the same verdict, by the same
// code, whether a command prints it or a file holds it; and a file that an
// agent writes is code as it is.
func TestReplayEqualsCommand(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir := t.TempDir()
	var rows, replay strings.Builder
	want := map[string]bool{}
	all := said()
	for _, text := range sampletest.Keys(t, 8, all) {
		right := all[text]
		id := fmt.Sprint("t", len(want))
		want[id] = right
		prompt := "# " + base64.StdEncoding.EncodeToString([]byte(text)) + "\nfrom math import floor\n\n\ndef add(a, b):\n    \"\"\"Adds.\"\"\"\n"
		for w, line := range map[*strings.Builder]map[string]any{
			&rows: {"id": id, "input": map[string]any{"prompt": prompt},
				"eval": map[string]any{"tests": map[string]any{"source": "inline", "code": "assert add(2, 3) == 5\nassert add(-4, 10) == 6\n", "entry_point": "add"}}},
			&replay: {"task_id": id, "text": text},
		} {
			b, err := json.Marshal(line)
			if err != nil {
				t.Fatal(err)
			}
			w.Write(append(b, '\n'))
		}
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "replay.jsonl"), replay.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: said\nversion: 1\ndefaults:\n  family: code_completion\n  environment:\n    image: "+image+"\n")
	write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: said, output_dir: printed}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config:
    timeout_seconds: 600
    command: ["python3", "-c", "import base64, json, sys; sys.stdout.buffer.write(base64.b64decode(json.load(open('task.json'))['prompt'].split()[1]))"]
`)
	ways := map[string][]string{
		"printed":  {"run", filepath.Join(dir, "tester.yaml"), "-q"},
		"replayed": {"run", dir, "--agent", "replay:" + filepath.Join(dir, "replay.jsonl"), "-o", filepath.Join(dir, "replayed"), "-q"},
	}
	t.Run("runs", func(t *testing.T) {
		for name, args := range ways {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if res := securebench(t, nil, append(args, "--workers", "3")...); res.code != 0 {
					t.Fatalf("exit %d: %s", res.code, res.stderr)
				}
				if res := securebench(t, nil, "reverify", filepath.Join(dir, name), "--pack", dir); res.code != 0 || !strings.Contains(res.stdout, " 0 different") {
					t.Errorf("reverify: exit %d: %s%s", res.code, res.stdout, res.stderr)
				}
			})
		}
	})
	printedRun, replayedRun := readSaid(t, filepath.Join(dir, "printed", "candidates.jsonl")), readSaid(t, filepath.Join(dir, "replayed", "candidates.jsonl"))
	for id, right := range want {
		printed, replayed := printedRun[id], replayedRun[id]
		if len(printed) != 1 || len(replayed) != 1 || printed[0] != replayed[0] || printed[0].Passed != right {
			t.Errorf("printed %+v, replayed %+v, right %v", printed, replayed, right)
		}
	}
}

// saidRecord is what both records of a text must agree in.
type saidRecord struct {
	TaskID   string `json:"task_id"`
	Text     string `json:"candidate_text"`
	Passed   bool   `json:"passed"`
	Outcome  string `json:"outcome"`
	Reason   string `json:"failure_reason"`
	Metadata struct {
		Extraction string `json:"extraction"`
		Completed  bool   `json:"completed_by_prompt"`
	} `json:"verifier_metadata"`
	Digests struct {
		Candidate string `json:"candidate"`
		Extracted string `json:"extracted"`
	} `json:"digests"`
}

func readSaid(t *testing.T, name string) map[string][]saidRecord {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]saidRecord{}
	for line := range strings.Lines(string(data)) {
		var r saidRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		out[r.TaskID] = append(out[r.TaskID], r)
	}
	return out
}
