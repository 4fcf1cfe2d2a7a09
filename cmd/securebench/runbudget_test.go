package main

import (
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/gateway/scripted"
)

// TestRunBudget: a run that has used the budget of all its attempts says so in one line,
// with what to do, and ends unsigned. The preview shows the budget, and a resume with a
// larger one completes the run.
func TestRunBudget(t *testing.T) {
	t.Parallel()
	dir, _ := sample(t)
	b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: 1"}}})
	config := filepath.Join(t.TempDir(), "tester.yaml")
	set := func(total string) []string {
		write(t, config, `schema_version: "0.2"
run: {id: budget, output_dir: out}
benchmark: {manifest: "`+filepath.Join(dir, "manifest.yaml")+`", tasks: "`+filepath.Join(dir, "tasks.jsonl")+`"}
harness: {type: model, config: {model: m-1, base_url: "`+b.url+`", prices: {m-1: {input: 1, output: 1}}, budget: {total: `+total+`}}}
`)
		return []string{"--config", config, "--limit", "4"}
	}
	spent := set("{requests: 2, tokens: 1000000, cost: 7.5}")
	spaced := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	code, stdout, stderr := b.run(append(spent, "--dry-run")...)
	if want := "at most 2 requests, 1000000 tokens, 7.50 USD, by the budget of the run"; code != 0 || !strings.Contains(spaced(stdout), want) {
		t.Errorf("exit %d, want %s: %s%s", code, want, stdout, stderr)
	}
	_, stdout, _ = b.run(append(spent, "--dry-run", "--json")...)
	if want := `"budget_total": { "requests": 2, "tokens": 1000000, "cost_usd": 7.5 }`; !strings.Contains(spaced(stdout), want) {
		t.Errorf("want %s: %s", want, stdout)
	}
	code, _, stderr = b.run(append(spent, "--progress", "none")...)
	want := "securebench: error: stopped after 2 of 4: harness.config.budget.total is spent: 2 of 2 requests; the records are kept in "
	if code != exitInterrupted || strings.Count(stderr, "error:") != 1 || !strings.Contains(stderr, want) || !strings.Contains(stderr, "; raise the budget, then: ") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := b.run(append(set("{requests: 4}"), "--resume")...); code != 0 || b.asked("") != 4 {
		t.Errorf("exit %d after %d questions: %s", code, b.asked(""), stderr)
	}
}
