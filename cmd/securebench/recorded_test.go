package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"securebench/internal/datatest"
)

// modelAnswer is one answer of a model, and what its data set says of it.
type modelAnswer struct {
	code   string
	passed bool
}

// TestRecordedAnswers: the recorded answers of a model to HumanEval get the
// verdicts that were recorded for them, however they are said: as code, as one
// fenced block, as a block in prose, and as only the body of the function.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	data := datatest.Dir(t)
	folders, err := filepath.Glob(filepath.Join(data, "humaneval-results", "*"))
	if err != nil || len(folders) == 0 {
		t.Skipf("no folder of a model's answers in %s", filepath.Join(data, "humaneval-results"))
	}
	rows := datatest.Rows(t, "humaneval")
	needEngine(t)
	pack := filepath.Join(t.TempDir(), "humaneval")
	if res := securebench(t, nil, "pack", "import", "humaneval", rows, "-o", pack); res.code != 0 {
		t.Fatal(res.stderr)
	}
	prompts := readPrompts(t, filepath.Join(pack, "tasks.jsonl"))
	for _, folder := range folders {
		answers := readAnswers(t, folder)
		for form, say := range map[string]func(prompt, code string) (string, bool){
			"code":  func(_, code string) (string, bool) { return code, true },
			"fence": func(_, code string) (string, bool) { return "```python\n" + code + "```", true },
			"prose": func(_, code string) (string, bool) {
				return "Sure! Here is the function:\n\n```python\n" + code + "```\n\nIt does what the docstring says.\n", true
			},
			"body": bodyOf,
		} {
			t.Run(filepath.Base(folder)+"/"+form, func(t *testing.T) { replayRecorded(t, pack, prompts, answers, say) })
		}
	}
}

// replayRecorded replays each answer that differs from the others to its task.
func replayRecorded(t *testing.T, pack string, prompts map[string]string, answers map[string][]modelAnswer, say func(prompt, code string) (string, bool)) {
	t.Helper()
	dir := t.TempDir()
	var lines strings.Builder
	want := map[string][]bool{}
	unsaid, most := 0, 0
	for _, id := range slices.Sorted(maps.Keys(prompts)) {
		for _, a := range answers[id] {
			text, ok := say(prompts[id], a.code)
			if !ok {
				unsaid++
				continue
			}
			want[id] = append(want[id], a.passed)
			b, err := json.Marshal(map[string]any{"task_id": id, "attempt": len(want[id]), "text": text})
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(b, '\n'))
		}
		most = max(most, len(want[id]))
	}
	write(t, filepath.Join(dir, "replay.jsonl"), lines.String())
	res := securebench(t, nil, "run", pack, "--agent", "replay:"+filepath.Join(dir, "replay.jsonl"), "--attempts", fmt.Sprint(most), "-o", filepath.Join(dir, "out"), "-q")
	if res.code != 0 {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	same, differ := 0, 0
	for id, rs := range readRecords(t, filepath.Join(dir, "out", "candidates.jsonl")) {
		for _, r := range rs {
			if r.Attempt > len(want[id]) {
				continue // another task has more answers
			}
			if r.Passed == want[id][r.Attempt-1] {
				same++
				continue
			}
			differ++
			t.Errorf("%s: passed %v (%s), recorded %v:\n%s", id, r.Passed, r.Outcome, want[id][r.Attempt-1], r.TaskID)
		}
	}
	if same == 0 {
		t.Error("nothing was compared")
	}
	t.Logf("%d of %d verdicts are the recorded ones; %d answers cannot be said so", same, same+differ, unsaid)
}

// readPrompts reads the prompts of a pack.
func readPrompts(t *testing.T, name string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var row struct {
			ID    string `json:"id"`
			Input struct {
				Prompt string `json:"prompt"`
			} `json:"input"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		out[row.ID] = row.Input.Prompt
	}
	return out
}

var (
	recordedTask = regexp.MustCompile(`^# Results of .* on (\S+)\n`)
	recordedRun  = regexp.MustCompile(`(?m)^### .* Run \d+$`)
)

// readAnswers reads a folder of Markdown files, one a task: each answer is a
// heading, a line that says what came of it, and a block of code. Equal answers
// to a task are kept once, and answers that have a fence of their own are left out.
func readAnswers(t *testing.T, folder string) map[string][]modelAnswer {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers in %s", folder)
	}
	out := map[string][]modelAnswer{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		head := recordedTask.FindStringSubmatch(text)
		runs := recordedRun.FindAllStringIndex(text, -1)
		if head == nil || len(runs) == 0 {
			t.Fatalf("%s: not the answers to a task", name)
		}
		for i, at := range runs {
			end := len(text)
			if i+1 < len(runs) {
				end = runs[i+1][0]
			}
			about, code, ok := strings.Cut(text[at[1]:end], "\n```python\n")
			code, closed := strings.CutSuffix(strings.TrimRight(code, "\n"), "```")
			if !ok || !closed || strings.Contains(about, "Result: Pass") == strings.Contains(about, "Result: Fail") {
				t.Fatalf("%s: run %d cannot be read", name, i+1)
			}
			if strings.HasPrefix(code, "```") {
				continue // its fence was taken for a part of the program there
			}
			a := modelAnswer{code, strings.Contains(about, "Result: Pass")}
			if !slices.Contains(out[head[1]], a) {
				out[head[1]] = append(out[head[1]], a)
			}
		}
	}
	return out
}

// bodyOf returns what follows the head and the docstring of the prompt's
// last function. It is not ok where the answer has another head, or code ahead
// of it that the prompt has not: only its body would be another program.
func bodyOf(prompt, code string) (string, bool) {
	at := strings.LastIndex("\n"+prompt, "\ndef ")
	head, _, _ := strings.Cut(prompt[at:], "\n")
	before, rest, ok := strings.Cut("\n"+code, "\n"+head+"\n")
	if !ok {
		return "", false
	}
	for line := range strings.Lines(before) {
		if !strings.Contains(prompt, strings.TrimSpace(line)) {
			return "", false
		}
	}
	for _, quote := range []string{`"""`, `'''`} {
		if inside, ok := strings.CutPrefix(strings.TrimLeft(rest, " \n"), quote); ok {
			_, rest, _ = strings.Cut(inside, quote)
			rest = strings.TrimLeft(rest, "\n")
		}
	}
	return rest, true
}
