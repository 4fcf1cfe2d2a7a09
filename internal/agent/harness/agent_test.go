package harness_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent/harness"
	"securebench/internal/task"
)

var update = flag.Bool("update", false, "write the golden files")

// aView is the agent's view of a task of a family, as the family makes it.
func aView(t *testing.T, family string) task.AgentView {
	t.Helper()
	tests := map[string]struct {
		env         task.Environment
		extract     task.Extraction
		instruction string
	}{
		"short_answer":    {task.Environment{}, fromStdout(), "Answer briefly."},
		"code_completion": {task.Environment{}, task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: "candidate.py", OrStdout: true}, "Write a module."},
		"repo_patch": {task.Environment{Workdir: "/testbed", Checkout: task.Checkout{Dir: "/testbed", Commit: "c"}},
			task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch}, "Change the repository."},
		"terminal_task": {task.Environment{Workdir: "/app", Env: []string{"TZ=UTC"}}, task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}, "Do the task."},
	}
	tt, ok := tests[family]
	if !ok {
		t.Fatal(family)
	}
	tt.env.Image, tt.env.Timeout = "image:1", 20*time.Minute
	tk, err := task.New(task.Config{ID: "p/t", Family: family, Pack: task.Pack{ID: "p"}, Environment: tt.env,
		Extraction: tt.extract, Instruction: tt.instruction})
	if err != nil {
		t.Fatal(err)
	}
	return tk.Agent()
}

// describe writes a plan with one value a line.
func describe(p harness.Plan) string {
	var b strings.Builder
	list := func(name string, values []string) {
		fmt.Fprintf(&b, "%s:\n", name)
		for _, v := range values {
			fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(v, "\n", "\n  | "))
		}
	}
	list("argv", p.Argv)
	list("forwarded", p.EnvNames)
	list("env", p.Env)
	output := "none"
	if p.Output != nil {
		output = p.Output.Name
	}
	fmt.Fprintf(&b, "token %s, home %s, output of %s\n", p.TokenEnv, p.Home, output)
	fmt.Fprintf(&b, "workdir %s, workspace %s, checkout %q, task file %s\n", p.Workdir, p.Target, p.Checkout, p.TaskFile)
	fmt.Fprintf(&b, "timeout %v, extract %+v\n", p.Timeout, p.Extract)
	for _, o := range p.Overlays {
		fmt.Fprintf(&b, "overlay %s %s at %s\n", o.Program, o.Version, o.Target)
	}
	for _, f := range p.Files {
		fmt.Fprintf(&b, "file %s: %s\n", f.Path, f.Text)
	}
	fmt.Fprintf(&b, "domains %q\n", p.Domains)
	if p.Relay != nil {
		fmt.Fprintf(&b, "relay %+v\n", *p.Relay)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Metadata)) {
		fmt.Fprintf(&b, "metadata %s = %v\n", key, p.Metadata[key])
	}
	return b.String()
}

// TestAgentPlans compares whole plans with golden files: what an agent is told,
// where it works and what it is given are all that its result depends on.
func TestAgentPlans(t *testing.T) {
	configs := map[string]struct{ typ, cfg string }{
		"codex":       {"codex", "{model: gpt-5.4-mini, timeout_seconds: 300}"},
		"claude_code": {"claude_code", "{model: claude-sonnet-5-5}"},
		"codex_all": {"codex", `{model: gpt-x, version: 1.2.3, task_file: in/t.json, allowed_domains: [pypi.org], base_url: "http://127.0.0.1:8080/x/v1/",
 budget: {requests: 10, tokens: 20000, cost: 0.5, total: {requests: 100, cost: 4}}, prices: {gpt-x: {input: 1.25, cached_input: 0.125, output: 10}, other: {input: 0, output: 1}},
 allow_external_tools: true, auth: api_key, reasoning_effort: high, system_prompt: "Say \"yes\"."}`},
		"claude_code_all": {"claude_code", `{model: sonnet, version: latest, small_model: claude-haiku-5-5, allowed_domains: [pypi.org],
 allow_external_tools: true, base_url: https://Gateway.example}`},
		"codex_added_all": {"codex", `{model: gpt-x, files: [notes.py], args: [--color, never], config: {model_verbosity: low, tui: {theme: x}},
 mcp: {notes: {command: [python3, "{files}/notes.py", "{model}"], env: {WORD: "a b"}}, other: {command: [x]}}}`},
		"claude_code_added_all": {"claude_code", `{model: claude-x, files: notes, config: {outputStyle: x}, mcp: {notes: {command: ["{files}/notes"]}}}`},
		"opencode_acp":          {"agent opencode", `{model: m, protocol: acp}`},
		"opencode_added":        {"agent opencode", `{model: m, files: [a], args: [--thinking], config: {snapshot: false}, mcp: {s: {command: [sh, "{files}/a"]}}}`},
		"command":               {"command", "{command: [run], allowed_domains: [pypi.org, docs.python.org]}"},
		"opencode":              {"agent opencode", "{model: gpt-5.4-mini}"},
		"qwen":                  {"agent qwen-code", `{model: m, api: messages, max_turns: 9, system_prompt: "Say {model}."}`},
		"mini":                  {"agent mini-swe-agent", `{model: m, api: responses, max_turns: 9, system_prompt: "Say {model}.", config: {model: {model_kwargs: {temperature: 0}}}}`},
		"opencode_messages":     {"agent opencode", "{model: claude-x, api: anthropic_messages}"},
	}
	for name, c := range configs {
		for _, family := range []string{"short_answer", "code_completion", "repo_patch", "terminal_task"} {
			if strings.HasSuffix(name, "_all") && family != "terminal_task" || !strings.HasPrefix(name, "c") && family != "repo_patch" || name == "command" && family != "code_completion" {
				continue
			}
			t.Run(name+"_"+family, func(t *testing.T) {
				h, problem := parse(t, c.typ, c.cfg, "TZ")
				if problem != "" {
					t.Fatal(problem)
				}
				v := aView(t, family)
				p, err := h.Plan(v)
				if err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", "plans", name+"_"+family+".txt"), describe(p))
				opts, err := h.Check(v)
				if err != nil || opts.TaskFile != p.TaskFile || opts.ArtifactPath != p.ArtifactPath {
					t.Errorf("Check returns %+v, %v", opts, err)
				}
				if strings.HasSuffix(name, "_acp") { // behind the client, and the prompt
					p.Argv = p.Argv[3:]
				}
				argv := h.Needs().Argv
				if n := len(argv); n == 0 || !slices.Equal(argv, p.Argv[:n]) {
					t.Errorf("the plan does not run %q", argv)
				}
				for _, o := range p.Overlays[:min(1, len(p.Overlays))] {
					program := o.Target + "/" + o.Package.Start
					if runner := o.Package.Runner(o.Target); p.Argv[0] != runner && (runner != "" || p.Argv[0] != program) {
						t.Errorf("the plan starts %s, and what runs the program is %q", p.Argv[0], runner)
					} else if runner != "" && o.Package.PyPI == "" && p.Argv[1] != program {
						t.Errorf("%s is not the overlay's %s", p.Argv[1], o.Package.Start)
					}
				}
				want := harness.Needs{Argv: argv, Env: p.EnvNames, Overlays: p.Overlays, Version: h.Needs().Version, Relay: p.Relay, Domains: p.Domains, Output: p.Output, Files: h.Needs().Files}
				if d := cmp.Diff(want, h.Needs()); d != "" {
					t.Errorf("the plan has not what the run prepares: -plan +run\n%s", d)
				}
			})
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s: -want +got (go test -update writes it)\n%s", name, d)
	}
}

// TestPlansShareNothing: a plan that is changed changes no other one.
func TestPlansShareNothing(t *testing.T) {
	h, problem := parse(t, "codex", "{model: m, allowed_domains: [a.b], prices: {m: {input: 1, output: 2}}}")
	if problem != "" {
		t.Fatal(problem)
	}
	v := aView(t, "short_answer")
	first, err := h.Plan(v)
	if err != nil {
		t.Fatal(err)
	}
	before := describe(first)
	first.Relay.Prices["m"], first.Relay.Model, first.Domains[0], first.Argv[0] = harness.Price{}, "x", "c.d", "x"
	first.Overlays[0].Version = "x"
	if again, _ := h.Plan(v); describe(again) != before {
		t.Errorf("the second plan is %s", describe(again))
	}
}

// TestKeyNeverForwarded: the variables that hold the provider's key name the
// relay's, and only names that are left are forwarded.
func TestKeyNeverForwarded(t *testing.T) {
	for _, tt := range []struct {
		typ, cfg string
		env      []string
		key      string
	}{
		{"codex", "{model: m}", nil, "OPENAI_API_KEY"},
		{"codex", "{model: m}", []string{"TZ", "OPENAI_API_KEY"}, "OPENAI_API_KEY"},
		{"codex", "{model: m}", []string{"CODEX_API_KEY", "TZ", "OPENAI_API_KEY"}, "CODEX_API_KEY"},
		{"claude_code", "{}", []string{"TZ"}, "ANTHROPIC_API_KEY"},
		{"claude_code", "", []string{"ANTHROPIC_API_KEY"}, "ANTHROPIC_API_KEY"},
	} {
		h, problem := parse(t, tt.typ, tt.cfg, tt.env...)
		if problem != "" {
			t.Fatal(problem)
		}
		p, err := h.Plan(aView(t, "short_answer"))
		if err != nil || p.Relay.KeyEnv != tt.key {
			t.Errorf("%s %v: %v, %v", tt.typ, tt.env, p.Relay, err)
		}
		if want := slices.Contains(tt.env, "TZ"); slices.Contains(p.EnvNames, "TZ") != want || len(p.EnvNames) > 1 {
			t.Errorf("%s %v: forwarded %v", tt.typ, tt.env, p.EnvNames)
		}
		for _, v := range p.Env {
			if strings.HasPrefix(v, p.TokenEnv+"=") {
				t.Errorf("the plan sets %s, which the relay's token is for", v)
			}
		}
	}
}

// TestRowsCannotSteer: a row's variables lead no agent past the gateway and
// change nothing about its program. Without a gateway they are the row's matter.
func TestRowsCannotSteer(t *testing.T) {
	for _, tt := range []struct{ typ, cfg, variable, want string }{
		{"codex", "{model: m}", "https_proxy=http://127.0.0.1:1", "sets https_proxy"},
		{"codex", "{model: m}", "CODEX_HOME=/tmp", "sets CODEX_HOME"},
		{"codex", "{model: m}", "OPENAI_BASE_URL=http://127.0.0.1:1", "sets OPENAI_BASE_URL"},
		{"claude_code", "{}", "ANTHROPIC_MODEL=x", "sets ANTHROPIC_MODEL"},
		{"claude_code", "{}", "CLAUDE_CODE_MAX_RETRIES=1", "sets CLAUDE_CODE_MAX_RETRIES"},
		{"command", "{command: x, allowed_domains: [a.b]}", "ALL_PROXY=socks5://127.0.0.1:1", "sets ALL_PROXY"},
		{"command", "{command: x, allowed_domains: [a.b]}", "NO_PROXY=db", ""},
		{"command", "{command: x, allowed_domains: [a.b]}", "ANTHROPIC_MODEL=x", ""},
		{"command", "{command: x}", "HTTP_PROXY=http://127.0.0.1:1", ""},
		{"codex", "{model: m}", "PROXY=1", ""},
	} {
		h, problem := parse(t, tt.typ, tt.cfg)
		if problem != "" {
			t.Fatal(problem)
		}
		v := view(t, "f", task.Environment{Env: []string{"TZ=UTC", tt.variable}}, fromStdout())
		_, planErr := h.Plan(v)
		_, checkErr := h.Check(v)
		for _, err := range []error{planErr, checkErr} {
			if (tt.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "p/t")) {
				t.Errorf("%s with %s: %v, want %q", tt.typ, tt.variable, err, tt.want)
			}
		}
	}
}

// TestAlias: an alias is probed once, then the plan and the prices have the name,
// and sub-agents cannot ask for another model.
func TestAlias(t *testing.T) {
	h, problem := parse(t, "claude_code", "{budget: {cost: 1}, prices: {sonnet: {input: 3, output: 15}}}")
	if problem != "" {
		t.Fatal(problem)
	}
	a, ok := h.(harness.Aliaser)
	if !ok || a.Alias() != "sonnet" {
		t.Fatalf("%T is no alias", h)
	}
	probe := a.Probe()
	if !slices.Contains(probe.Argv, "sonnet") || !slices.Contains(probe.Env, "ANTHROPIC_SMALL_FAST_MODEL="+harness.ProbeSmallModel) || probe.Relay == nil {
		t.Errorf("the probe is %s", describe(probe))
	}
	for _, v := range probe.Env {
		if strings.HasPrefix(v, "ANTHROPIC_DEFAULT_") {
			t.Errorf("%s decides what the alias means", v)
		}
	}
	for model, can := range map[string]bool{"claude-sonnet-5-5": true, "claude-opus-5-5": false, "sonnet": true, "gpt-5": false} {
		if a.Means(model) != can {
			t.Errorf("sonnet can mean %s: %v", model, !can)
		}
	}
	pinned := a.Pinned("claude-sonnet-5-5")
	p, err := pinned.Plan(aView(t, "short_answer"))
	if err != nil {
		t.Fatal(err)
	}
	want := harness.Price{Input: 3, CachedInput: 3, CacheWrite: 3.75, Output: 15}
	if p.Relay.Model != "claude-sonnet-5-5" || p.Relay.Prices["claude-sonnet-5-5"] != want || slices.Contains(p.Argv, "sonnet") {
		t.Errorf("pinned: %s", describe(p))
	}
	for _, name := range []string{"SMALL_FAST", "DEFAULT_HAIKU", "DEFAULT_SONNET", "DEFAULT_OPUS", "DEFAULT_FABLE"} {
		if !slices.Contains(p.Env, "ANTHROPIC_"+name+"_MODEL=claude-sonnet-5-5") {
			t.Errorf("a sub-agent can ask for another model by %s", name)
		}
	}
	if p.Metadata["claude_code_model"] != "claude-sonnet-5-5" || p.Metadata["claude_code_model_alias"] != "sonnet" {
		t.Errorf("recorded: %v", p.Metadata)
	}
	if again := pinned.(harness.Aliaser); again.Alias() != "" {
		t.Errorf("the pinned harness has the alias %q", again.Alias())
	}
	if h.(harness.Aliaser).Alias() != "sonnet" {
		t.Error("pinning changed the first harness")
	}
	if full, _ := parse(t, "claude_code", "{model: claude-opus-5-5}"); full.(harness.Aliaser).Alias() != "" {
		t.Error("a full name is no alias")
	}
}
