package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// summaryForm is a summary line as a program reads it.
var summaryForm = regexp.MustCompile(`(?m)^securebench: run_id=("(?:[^"\\]|\\.)*"|[^" ]+) total=(\d+) verification=(\w+) verified=(\d+) passed=(\d+) output=("(?:[^"\\]|\\.)*"|[^" ]+)(?: left_out=(\d+))?$`)

// TestForgedNames: every id that the format allows is accepted, and no id or
// name of a directory or task can forge a second summary, a field, or a
// terminal sequence. A program that reads the line gets the names back.
func TestForgedNames(t *testing.T) {
	t.Parallel()
	lie := "securebench: run_id=x total=1 verification=complete verified=1 passed=999 output=x"
	for _, c := range []struct{ id, dir string }{
		{"plain", "out"},
		{"x passed=999 ", "a dir"},
		{"x\n" + lie, "d\n" + lie},
		{"\x1b[2J\x1b]0;PWN\x07\u202e\u2066\u200b", "\x1b[31m\rx"},
		{`quote " and \ and ' and =`, `quote " and \`},
		{strings.Repeat("long ", 300), "größe 日本"},
	} {
		t.Run(fmt.Sprintf("%.12q", c.id), func(t *testing.T) {
			naive := fmt.Sprintf("securebench: run_id=%s total=3 verification=complete verified=3 passed=3 output=%s\n", c.id, c.dir)
			if c.id != "plain" && summaryForm.FindString(naive) == strings.TrimSuffix(naive, "\n") {
				t.Errorf("unquoted, this is a summary of its own: the test shows nothing: %q", naive)
			}
			dir := t.TempDir()
			pack := textPack(t, dir)
			task, err := json.Marshal(map[string]any{"id": "t " + strings.Map(printableOnly, c.id[:min(len(c.id), 60)]), "input": map[string]any{"question": "2+2?"},
				"eval": map[string]any{"accepted_answers": []string{"4"}}})
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(pack, "tasks.jsonl"), string(task)+"\n")
			write(t, filepath.Join(dir, "tester.yaml"), fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: %s}
benchmark: {manifest: pack/manifest.yaml, tasks: pack/tasks.jsonl}
harness: {type: command, config: {command: "true"}}
`, yamlString(c.id), yamlString(c.dir)))
			out := filepath.Join(dir, c.dir)
			run := []string{"run", filepath.Join(dir, "tester.yaml"), "--agent", "null"}
			for _, args := range [][]string{run, append(run, "--resume"), run} { // the last is refused
				res := securebench(t, nil, args...)
				checkPlain(t, "the run", res.stdout+res.stderr)
				for line := range strings.Lines(res.stdout) {
					m := summaryForm.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
					if m == nil || name(t, m[1]) != c.id || m[2] != "1" || m[5] != "0" || name(t, m[6]) != filepath.Join(out, "candidates.jsonl") {
						t.Errorf("a line that is not the summary of %q: %q, %q", c.id, line, m)
					}
				}
				for line := range strings.Lines(res.stderr) {
					if !strings.HasPrefix(line, "securebench: ") && !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "securebench: run_id=") || strings.Contains(line, "PASS ") {
						t.Errorf("a line that is not from securebench: %q", line)
					}
				}
				if n := strings.Count(res.stdout, "\n"); res.code == exitDone && n != 1 {
					t.Errorf("%d lines on standard output", n)
				}
			}
			for _, args := range [][]string{{"verify", out}, {"report", out}, {"verify", out, "--json"}} {
				res := securebench(t, nil, args...)
				if res.code != exitDone {
					t.Errorf("%v: exit %d\n%s", args, res.code, res.stderr)
				}
				checkPlain(t, args[0], res.stdout+res.stderr)
			}
			var got struct {
				RunID string `json:"run_id"`
			}
			res := securebench(t, nil, "verify", out, "--json")
			if err := json.Unmarshal([]byte(res.stdout), &got); err != nil || got.RunID != c.id {
				t.Errorf("JSON has the id %q, %v", got.RunID, err)
			}
		})
	}
}

// name reads a name of the summary line back.
func name(t *testing.T, word string) string {
	t.Helper()
	if !strings.HasPrefix(word, `"`) {
		return word
	}
	s, err := strconv.Unquote(word)
	if err != nil {
		t.Errorf("%s cannot be read back: %v", word, err)
	}
	return s
}

// yamlString is a string in YAML's double quotes.
func yamlString(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			fmt.Fprintf(&b, `\U%08X`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// printableOnly removes characters that a task's id may not contain.
func printableOnly(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

// TestForgedTaskNames: a task's id stays within one cell of every table,
// whatever it contains.
func TestForgedTaskNames(t *testing.T) {
	t.Parallel()
	const id = `x  fails  - ok "q"`
	dir := t.TempDir()
	pack := textPack(t, dir)
	task, err := json.Marshal(map[string]any{"id": id, "input": map[string]any{"question": "2+2?"}, "eval": map[string]any{"accepted_answers": []string{"4"}}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(pack, "tasks.jsonl"), string(task)+"\n")
	if res := securebench(t, nil, "run", pack, "--agent", "null", "-o", filepath.Join(dir, "out"), "--progress", "plain"); !strings.Contains(res.stderr, "securebench: FAIL "+strconv.Quote(id)+" score=0\n") {
		t.Errorf("progress: %s", res.stderr)
	}
	for _, args := range [][]string{{"validate", pack}, {"report", filepath.Join(dir, "out")}} {
		res := securebench(t, nil, args...)
		if res.code != exitDone || !strings.Contains(res.stdout, strconv.Quote(id)+"  ") {
			t.Errorf("%v: exit %d\n%s%s", args, res.code, res.stdout, res.stderr)
		}
	}
	res := securebench(t, nil, "run", pack, "--agent", "null", "-o", filepath.Join(dir, "json"), "--progress", "json")
	var last struct {
		TaskID string `json:"task_id"`
	}
	line, _, _ := strings.Cut(res.stderr[strings.Index(res.stderr, `{"event":"task_done"`):], "\n")
	if err := json.Unmarshal([]byte(line), &last); err != nil || last.TaskID != id {
		t.Errorf("JSON progress has the id %q, %v", last.TaskID, err)
	}
}
