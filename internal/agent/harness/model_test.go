package harness_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/access"
	"securebench/internal/task"
)

// TestModelSettings: what a tester YAML says is what is asked, and what a protocol
// does not have is refused.
func TestModelSettings(t *testing.T) {
	h, problem := parse(t, "model", `{model: Qwen/Qwen3-8B, base_url: "http://127.0.0.1:8000/v1", system: "Be brief.", temperature: 0.5, max_tokens: 100,
 reasoning_effort: low, seed: 3, stop: [END], timeout_seconds: 60, budget: {requests: 2, cost: 0.5}, prices: {Qwen/Qwen3-8B: {input: 1, output: 2}}}`)
	if problem != "" {
		t.Fatal(problem)
	}
	half, three := 0.5, int64(3)
	want := harness.Model{Relay: harness.Relay{Address: access.Address{API: access.Chat, BaseURL: "http://127.0.0.1:8000", KeyEnv: "OPENAI_API_KEY"}, Model: "Qwen/Qwen3-8B",
		Requests: 2, Cost: 0.5, Prices: map[string]harness.Price{"Qwen/Qwen3-8B": {Input: 1, CachedInput: 1, CacheWrite: 1, Output: 2}}},
		System: "Be brief.", Temperature: &half, MaxTokens: 100, Effort: "low", Seed: &three, Stop: []string{"END"}}
	if d := cmp.Diff(&want, h.Needs().Model); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	p, err := h.Plan(aView(t, "short_answer"))
	if err != nil || p.Timeout != time.Minute || p.Question.System != "Be brief." || len(p.Argv) > 0 {
		t.Errorf("%+v: %v", p, err)
	}
	for _, tt := range []struct{ cfg, api, url, key string }{
		{"{model: gpt-5.5}", access.Responses, "https://api.openai.com", "OPENAI_API_KEY"},
		{"{model: m, api: messages}", access.Messages, "https://api.anthropic.com", "ANTHROPIC_API_KEY"},
		{"{model: m, base_url: https://x.example, api_key_env: MY_KEY}", access.Chat, "https://x.example", "MY_KEY"},
	} {
		h, problem := parse(t, "model", tt.cfg)
		if problem != "" {
			t.Fatal(problem)
		}
		m := h.Needs().Model
		if m.API != tt.api || m.BaseURL != tt.url || m.KeyEnv != tt.key || m.KeyOptional() || (len(m.Prices) > 0) != (m.Model == "gpt-5.5") {
			t.Errorf("%s: %+v", tt.cfg, m)
		}
	}
}

// TestModelMistakes: each is refused with what to do, or what there is.
func TestModelMistakes(t *testing.T) {
	for cfg, want := range map[string]string{
		"{}":                     "model is required",
		"{model: m, api: soap}":  "must be one of: chat, gemini, messages, responses",
		"{model: \"a\\nb\"}":     "without control characters",
		"{model: \"a\\u202eb\"}": "without control characters",
		"{model: \"" + strings.Repeat("m", 257) + "\"}":                   "at most 256 bytes",
		"{model: m, seed: 1}":                                             "has no such setting",
		"{model: m, stop: [x]}":                                           "has no such setting",
		"{model: m, api: messages, seed: 1}":                              "has no such setting",
		"{model: m, api: chat, stop: []}":                                 "1 to 4 texts",
		"{model: m, api: chat, stop: [a, b, c, d, e]}":                    "1 to 4 texts",
		"{model: m, temperature: 3}":                                      "from 0 to 2",
		"{model: m, temperature: hot}":                                    "from 0 to 2",
		"{model: m, max_tokens: 0}":                                       "max_tokens",
		"{model: m, reasoning_effort: huge}":                              "must be one of: none",
		"{model: m, api: messages, reasoning_effort: none}":               "must be one of: low",
		"{model: m, api_key_env: sk-1234}":                                "is not the name of a variable",
		"{model: m, base_url: \"http://models.example\", api_key_env: K}": "must be https",
		"{model: m, budget: {cost: 1}}":                                   "needs the price of model",
		"{model: m, temperatures: 1}":                                     `"temperatures"`,
		"{model: m, prices: {other: {input: 1, output: 1}}}":              "has no price of model",
		"{model: m, system: 3}":                                           "system",
		"{model: m, timeout_seconds: -1}":                                 "timeout_seconds",
		"{model: m, budget: {requests: 0}}":                               "requests",
		"{model: gpt-5.5, budget: {cost: 1}, base_url: \"http://[::1]\"}": "needs the price of model",
	} {
		if _, problem := parse(t, "model", cfg); !strings.Contains(problem, want) || strings.Contains(problem, "sk-1234") {
			t.Errorf("%s: %q, want %q", cfg, problem, want)
		}
	}
	if _, problem := parse(t, "model", "{model: m}", "OPENAI_API_KEY", "HOME"); !strings.Contains(problem, "harness.env names HOME") {
		t.Error(problem)
	}
	if _, problem := parse(t, "model", "{model: gpt-5.5-2026-04-23, budget: {cost: 1}}", "OPENAI_API_KEY"); problem != "" {
		t.Error(problem)
	}
}

// TestQuestions compares what models are asked with golden files.
func TestQuestions(t *testing.T) {
	h, problem := parse(t, "model", "{model: m}")
	if problem != "" {
		t.Fatal(problem)
	}
	text := func(name, value string) task.Resource {
		v, err := jsontext.AppendQuote(nil, value)
		if err != nil {
			t.Fatal(err)
		}
		return task.Resource{Name: name, Lane: task.Public, Value: v}
	}
	raw := func(name, value string) task.Resource {
		return task.Resource{Name: name, Lane: task.Public, Value: jsontext.Value(value)}
	}
	for family, tt := range map[string]struct {
		x           task.Extraction
		instruction string
		rows        []task.Resource
	}{
		"short_answer":    {fromStdout(), "Answer briefly.", []task.Resource{text("question", "How many?"), text("answer_format", "a number"), raw("context", `{"a":[1,2]}`)}},
		"multiple_choice": {fromStdout(), "Choose.", []task.Resource{text("question", "Which?"), raw("choices", `["one","two \"2\""]`)}},
		"code_completion": {task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: "candidate.py", OrStdout: true}, "Write a module to candidate.py.",
			[]task.Resource{text("prompt", "def f():\n    ...\n"), text("language", "python"), text("starter_code", "import math\nx = 1\n")}},
	} {
		rows := append(tt.rows, task.Resource{Name: "gold", Lane: task.Hidden, Value: jsontext.Value(`"hidden-canary"`)})
		tk, err := task.New(task.Config{ID: "p/t", Family: family, Pack: task.Pack{ID: "p"}, Extraction: tt.x, Instruction: tt.instruction, Resources: rows})
		if err != nil {
			t.Fatal(err)
		}
		p, err := h.Plan(tk.Agent())
		if err != nil || p.Extract.Mode != task.FromStdout || p.Extract.Kind != tt.x.Kind {
			t.Fatalf("%s: %+v, %v", family, p, err)
		}
		if strings.Contains(p.Question.User, "canary") {
			t.Errorf("%s: the question has a hidden value", family)
		}
		golden(t, filepath.Join("testdata", "questions", family+".txt"), p.Question.User+"\n")
	}
	for _, family := range []string{"repo_patch", "terminal_task"} {
		v := aView(t, family)
		_, planErr := h.Plan(v)
		if _, err := h.Check(v); err == nil || planErr == nil || !strings.Contains(err.Error(), "answers in text") {
			t.Errorf("%s: %v, %v", family, err, planErr)
		}
	}
}

// TestToolsOffered: the tools of a row are offered in the form of providers, and the
// question has neither them nor the family's instruction.
func TestToolsOffered(t *testing.T) {
	h, problem := parse(t, "model", `{model: m, system: "Be brief."}`)
	if problem != "" {
		t.Fatal(problem)
	}
	view := func(values ...string) task.AgentView {
		c := task.Config{ID: "p/t", Family: "f", Pack: task.Pack{ID: "p"}, Extraction: fromStdout(), Instruction: "Write JSON."}
		for i := 0; i < len(values); i += 2 {
			c.Resources = append(c.Resources, task.Resource{Name: values[i], Lane: task.Public, Value: jsontext.Value(values[i+1])})
		}
		tk, err := task.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return tk.Agent()
	}
	const tools = `[{"name":"tank.fill","description":"Fills.","parameters":{"type":"dict","properties":{"n":{"type":"float"}}}},{"name":"stop","parameters":{}}]`
	offered := []harness.Tool{{Name: "tank_fill", Description: "Fills.", Parameters: jsontext.Value(`{"properties":{"n":{"type":"number"}},"type":"object"}`)},
		{Name: "stop", Parameters: jsontext.Value(`{"properties":{},"type":"object"}`)}}
	for name, tt := range map[string]struct {
		view task.AgentView
		want harness.Question
	}{
		"a prompt and a policy": {view("prompt", `"Fill."`, "tools", tools, "policy", `"Never spill."`), harness.Question{System: "Be brief.\n\nNever spill.", User: "Fill.", Tools: offered}},
		"messages": {view("tools", tools, "messages", `[{"role":"system","content":"You pump."},{"role":"user","content":"Fill."}]`),
			harness.Question{System: "Be brief.\n\nYou pump.", User: "Fill.", Tools: offered}},
		"several messages": {view("tools", tools, "messages", `[{"role":"user","content":"Fill."},{"role":"assistant","content":"How much?"},{"role":"user","content":"2"}]`),
			harness.Question{System: "Be brief.", User: "User: Fill.\n\nAssistant: How much?\n\nUser: 2", Tools: offered}},
		"names only": {view("prompt", `"Fill."`, "tools", `["click"]`), harness.Question{System: "Be brief.", User: "Write JSON.\n\nFill.\n\nTools: [\"click\"]"}},
	} {
		p, err := h.Plan(tt.view)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&tt.want, p.Question); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	for name, tools := range map[string]string{
		"equal":  `[{"name":"a.b","parameters":{}},{"name":"a_b","parameters":{}}]`,
		"length": `[{"name":"` + strings.Repeat("a", 65) + `","parameters":{}}]`,
	} {
		v := view("prompt", `"x"`, "tools", tools)
		if _, err := h.Check(v); err == nil || !strings.Contains(err.Error(), "a provider of models cannot take") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
