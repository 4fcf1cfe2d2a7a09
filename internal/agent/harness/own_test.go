package harness_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/access"
	"securebench/internal/task"
)

// TestOwnAgent: what an own agent has beside its command is in its plan.
func TestOwnAgent(t *testing.T) {
	h, problem := parse(t, "command", "{command: [run], files: agent/, image: 'localhost/mine:1', model: org/model-1, base_url: 'http://127.0.0.1:8000/v1', budget: {tokens: 5, cost: 1}, prices: {org/model-1: {input: 1, output: 2}}}", "OPENAI_API_KEY", "TZ")
	if problem != "" {
		t.Fatal(problem)
	}
	n := h.Needs()
	want := harness.Needs{Argv: []string{"run"}, Env: []string{"TZ"}, Files: &harness.Files{Paths: []string{"agent"}, Content: true}, Image: "localhost/mine:1", Relay: &harness.Relay{
		Address: access.Address{API: "openai_responses", BaseURL: "http://127.0.0.1:8000", KeyEnv: "OPENAI_API_KEY", KeyNamed: true}, Model: "org/model-1", Tokens: 5, Cost: 1,
		Prices: map[string]harness.Price{"org/model-1": {Input: 1, CachedInput: 1, CacheWrite: 1, Output: 2}}}}
	if d := cmp.Diff(want, n); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	p, err := h.Plan(view(t, "short_answer", task.Environment{Image: "i"}, fromStdout()))
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"SECUREBENCH_AGENT_FILES=/opt/securebench/agent", "SECUREBENCH_MODEL=org/model-1",
		"OPENAI_BASE_URL=http://127.0.0.1:61081/v1", "ANTHROPIC_BASE_URL=http://127.0.0.1:61081", "NO_PROXY=localhost,127.0.0.1,::1"} {
		if !slices.Contains(p.Env, variable) {
			t.Errorf("%s is not in %q", variable, p.Env)
		}
	}
	if p.TokenEnv != "OPENAI_API_KEY" || p.FilesDir != harness.FilesDir || p.Relay == nil || !slices.Equal(p.EnvNames, []string{"TZ"}) ||
		p.Metadata["command_model"] != "org/model-1" || p.Metadata["agent_image"] != "localhost/mine:1" {
		t.Errorf("plan %+v", p)
	}
	if _, err := h.Plan(view(t, "short_answer", task.Environment{Image: "i", Env: []string{"OPENAI_BASE_URL=http://elsewhere"}}, fromStdout())); err == nil {
		t.Error("a row sets up the agent's provider")
	}
	h, problem = parse(t, "command", "{command: [run], files: [a.py, lib], api: anthropic_messages, model: m}")
	if problem != "" {
		t.Fatal(problem)
	}
	n = h.Needs()
	if both, problem := parse(t, "command", "{command: [run], api: [openai_chat, openai_responses], model: m}"); problem != "" ||
		both.Needs().Relay.API != access.Chat || !slices.Equal(both.Needs().Relay.Also, []string{access.Responses}) || both.Needs().Relay.KeyEnv != "OPENAI_API_KEY" {
		t.Errorf("needs %+v, %s", both.Needs().Relay, problem)
	}
	if n.Relay.BaseURL != "https://api.anthropic.com" || n.Relay.KeyEnv != "ANTHROPIC_API_KEY" || n.Files.Content || len(n.Files.Paths) != 2 {
		t.Errorf("needs %+v", n)
	}
}

// TestOwnAgentProblems: what is wrong in the configuration of an own agent is named,
// with what to do.
func TestOwnAgentProblems(t *testing.T) {
	for in, want := range map[string]string{
		"requirements: ../r":  `harness.config.requirements "../r": `,
		"requirements: [a]":   "harness.config.requirements must be a non-empty string, not a list",
		"files: ../agent":     `harness.config.files "../agent": `,
		"files: /srv/agent":   `harness.config.files "/srv/agent": `,
		"files: .":            `harness.config.files ".": `,
		"files: []":           "harness.config.files is empty (name what the agent needs, or leave it out)",
		"files: [a, 7]":       "harness.config.files must be a non-empty string, not a number",
		"image: 'a b'":        "harness.config.image must be the name of an image (write one such as my-agent:1)",
		"image: -v":           "harness.config.image must be the name of an image",
		"api: chat":           "harness.config.api is about a provider, and the command has none (add harness.config.model",
		"model: m, api: chat": "harness.config.api must be one of: openai_responses, openai_chat, anthropic_messages, gemini; or a list of those of one provider",
		"model: m, api: []":   "harness.config.api must be one of",
		"model: m, api: [openai_chat, openai_chat]":        "or a list of those of one provider (name each once)",
		"model: m, api: [openai_chat, anthropic_messages]": "(anthropic_messages has the key ANTHROPIC_API_KEY)",
		"model: m, api: [openai_chat, {}]":                 "harness.config.api must be one of",
		"budget: {requests: 1}":                            "harness.config.budget is about a provider, and the command has none",
		"budget: {request: 1}":                             `harness.config.budget contains unsupported field "request"`,
		"model: m, budget: {cost: 1}":                      `harness.config.budget.cost needs the price of model "m"`,
		`model: "a\tb"`:                                    "harness.config.model must be a text without control characters",
		"model: m, base_url: 'ftp://a'":                    "harness.config.base_url must begin with https://",
		"model: m, auth: login":                            "harness.config.auth must be api_key",
	} {
		_, problem := parse(t, "command", "{command: [run], "+in+"}")
		if !strings.Contains(problem, want) {
			t.Errorf("%s:\n%s\nwant %s", in, problem, want)
		}
	}
	const relay = "{command: [run], model: m}"
	for name, want := range map[string]string{"OPENAI_API_KEY": "", "HOME": "", "PATH": "", "OPENAI_ORG": "", "ANTHROPIC_API_KEY": "which is not an API key of the command harness's provider (name OPENAI_API_KEY)",
		"OPENAI_BASE_URL": "but the agent's requests go to the relay"} {
		if _, problem := parse(t, "command", relay, name); (problem == "") != (want == "") || !strings.Contains(problem, want) {
			t.Errorf("%s: %q, want %q", name, problem, want)
		}
	}
}

// TestReplacesImage: an agent may run elsewhere only if the row is not about what is in
// its image.
func TestReplacesImage(t *testing.T) {
	code := task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: "candidate.py", OrStdout: true}
	for name, tt := range map[string]struct {
		env  task.Environment
		ex   task.Extraction
		want bool
	}{
		"text":                      {task.Environment{Image: "i"}, fromStdout(), true},
		"code":                      {task.Environment{Image: "i"}, code, true},
		"text in a folder of it":    {task.Environment{Image: "i", MaterializeWorkdir: true}, fromStdout(), false},
		"text beside a repository":  {task.Environment{Image: "i", Checkout: task.Checkout{Dir: "/repo"}}, fromStdout(), false},
		"text with a writable root": {task.Environment{Image: "i", WritableRoot: true}, fromStdout(), true},
		"a patch":                   {task.Environment{Image: "i"}, task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch}, false},
		"a tree":                    {task.Environment{Image: "i"}, task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}, false},
	} {
		if got := harness.ReplacesImage(view(t, "f", tt.env, tt.ex)); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
