package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"securebench/internal/judge/judgetest"
	"securebench/internal/verdict"
)

// askingAgent asks its provider for the answer.
const askingAgent = `
import json, os, urllib.request
body = json.dumps({"model": os.environ["SECUREBENCH_MODEL"], "messages": [{"role": "user", "content": "What is the capital?"}]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
`

// apartBench is a judge's, whose provider also has the model of the candidates.
type apartBench struct {
	*judgeBench
	harness string // its type and configuration, without the budget
	asked   atomic.Int64
}

func newApartBench(t *testing.T, harness string) *apartBench {
	b := &apartBench{judgeBench: newJudgeBench(t, judgetest.Careful, 4), harness: harness}
	b.server.Before = func(w http.ResponseWriter, user string) bool {
		if strings.Contains(user, "The answer to check:") {
			return false
		}
		b.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"model":"agent-1","choices":[{"message":{"content":"It is a city. (submitted)"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`)
		return true
	}
	return b
}

// try runs, with one budget for the candidates and one for the judge.
func (b *apartBench) try(total, judge string, args ...string) (code int, stderr string) {
	b.t.Helper()
	write(b.t, b.config, `schema_version: "0.2"
run: {id: "`+ownRun("apart")+`", output_dir: out, max_workers: 1}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
`+b.harness+`
    model: agent-1
    base_url: "`+b.url+`"
    prices: {agent-1: {input: 1, output: 1}}
    budget: {total: `+total+`}
judge:
  model: judge-1
  base_url: "`+b.url+`"
  api_key_env: JUDGE_KEY
  canaries: off
  budget: `+judge+"\n")
	args = append([]string{"run", "--config", b.config, "--env-file", b.dir + "/env", "-o", b.out, "-q"}, args...)
	if strings.Contains(b.harness, "command:") { // in a sandbox
		o := securebench(b.t, nil, args...)
		return o.code, o.stderr
	}
	code, _, stderr = b.call(args...)
	return code, stderr
}

// TestBudgetsApart: what all candidates of a run may use of their provider, and what its
// judge may use, are two budgets, though they ask the same provider. Neither counts what the
// other has used, also when the run is resumed.
func TestBudgetsApart(t *testing.T) {
	t.Parallel()
	const asks = "  type: model\n  config:\n    api: chat"
	for name, tt := range map[string]struct {
		harness     func() string
		total, want string
	}{
		"a model's requests": {func() string { return asks }, "{requests: 2}", "2 of 2 requests"},
		"a model's tokens":   {func() string { return asks }, "{tokens: 200}", "220 of 200 tokens"},
		"a model's cost":     {func() string { return asks }, "{cost: 0.0002}", "0.00022 of 0.0002 USD"},
		"an agent's requests": {func() string {
			return fmt.Sprintf("  type: command\n  env: [OPENAI_API_KEY]\n  config:\n    command: [python3, -c, %q]\n    image: %q\n    api: openai_chat", askingAgent, needEngine(t))
		}, "{requests: 2}", "2 of 2 requests"},
	} {
		t.Run(name, func(t *testing.T) { newApartBench(t, tt.harness()).apart(tt.total, tt.want) })
	}
}

func (b *apartBench) apart(total, want string) {
	t := b.t
	code, stderr := b.try(total, "{requests: 9}")
	if want := "stopped after 2 of 4: harness.config.budget.total is spent: " + want; code != exitInterrupted || !strings.Contains(stderr, want) {
		t.Errorf("exit %d, want %s: %s", code, want, stderr)
	}
	if b.asked.Load() != 2 || b.votes() != 6 {
		t.Errorf("%d questions and %d votes", b.asked.Load(), b.votes())
	}
	code, stderr = b.try("{requests: 4}", "{requests: 9}", "--resume")
	if code != 0 || b.asked.Load() != 3 || b.votes() != 9 { // a candidate that nobody could judge is not asked for
		t.Errorf("exit %d after %d questions and %d votes: %s", code, b.asked.Load(), b.votes(), stderr)
	}
	pending := 0
	for _, l := range b.records() {
		if l.Outcome == verdict.Pending && l.FailureReason == verdict.Budget {
			pending++
		}
	}
	if pending != 1 {
		t.Errorf("%d attempts are pending for want of the judge's budget", pending)
	}
	if code, stderr = b.try("{requests: 4}", "{requests: 12}", "--resume"); code != 0 || b.asked.Load() != 4 || b.votes() != 12 {
		t.Errorf("exit %d after %d questions and %d votes: %s", code, b.asked.Load(), b.votes(), stderr)
	}
}
