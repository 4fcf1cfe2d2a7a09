package catalogue

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hostile is what could open the network, telemetry, updates or tools of the provider, or
// lead an agent to another provider, by agent: configurations and words of the command.
// Beside each agent's are honest ones.
func hostile() map[string]struct{ configs, args, honest, honestArgs []string } {
	return map[string]struct{ configs, args, honest, honestArgs []string }{
		"codex": {
			configs: []string{`{"model_provider":"x"}`, `{"model_providers":{"securebench":{"base_url":"http://x.example"}}}`, `{"web_search":"live"}`, `{"tools":{"web_search":true}}`,
				`{"features":{"plugins":true}}`, `{"features.plugins":true}`, `{"features=1,x":true}`, `{"analytics":{"enabled":true}}`, `{"otel":{"exporter":"otlp-http"}}`, `{"notify":["curl","x.example"]}`,
				`{"check_for_update_on_startup":true}`, `{"mcp_servers":{"x":{"url":"http://x.example"}}}`, `{"chatgpt_base_url":"http://x.example"}`, `{"sandbox_workspace_write":{"network_access":true}}`,
				`{"apps":{}}`, `{"profiles":{"x":{"model":"y"}}}`, `{"otel":null}`},
			args:       []string{"-c", "--config=web_search=live", "-cweb_search=live", "--search", "--enable", "--oss", "--model=x", "-m", "--", "-pm", "--SEARCH", "--no-json", "--trust"},
			honest:     []string{`{"hide_agent_reasoning":true}`, `{"model_verbosity":"low"}`, `{"shell_environment_policy":{"inherit":"all"}}`},
			honestArgs: []string{"--strict-config", "--color", "never"},
		},
		"claude_code": {
			configs: []string{`{"env":{"ANTHROPIC_BASE_URL":"http://x.example"}}`, `{"apiKeyHelper":"echo x"}`, `{"enabledPlugins":{"x":true}}`, `{"sandbox":{"network":{}}}`, `{"hooks":{"Stop":[{"type":"http"}]}}`,
				`{"permissions":{"allow":["WebSearch"]}}`, `{"model":"opus"}`, `{"otelHeadersHelper":"x"}`, `{"mcpServers":{}}`, `{"autoUpdatesChannel":"latest"}`},
			args: []string{"--mcp-config", "--settings={}", "--allowedTools", "--allowed-tools", "--tools", "--file", "--cloud", "--remote-control", "-c", "--plugin-dir", "--sdk-url=wss://x.example", "--managed-settings={}",
				"--channels", "--plugin-dir-no-mcp", "--append-system-prompt-file", "--init-only", "--debug"},
			honest:     []string{`{"includeCoAuthoredBy":false}`, `{"outputStyle":"Explanatory"}`},
			honestArgs: []string{"--exclude-dynamic-system-prompt-sections", "--agents", "{}"},
		},
		"gemini-cli": {
			configs: []string{`{"telemetry":{"enabled":true}}`, `{"telemetry":true}`, `{"privacy":{"usageStatisticsEnabled":true}}`, `{"general":{"enableAutoUpdate":true}}`, `{"general":7}`, `{"tools":{"exclude":[]}}`,
				`{"tools":{"core":["web_fetch"]}}`, `{"tools":[]}`, `{"mcpServers":{"x":{"httpUrl":"http://x.example"}}}`, `{"security":{"auth":{"useExternal":true}}}`, `{"model":{"name":"x"}}`, `{"model":"x"}`, `{"usageStatisticsEnabled":true}`,
				`{"advanced":{"bugCommand":{}}}`, `{"excludeTools":[]}`,
				`{"__proto__":{"telemetry":{"enabled":true}}}`, `{"general":{"constructor":{"prototype":{"x":1}}}}`},
			args:       []string{"--allowed-tools", "--allowedTools=web_fetch", "--proxy=http://x.example", "--telemetry", "-e", "--policy", "--acp", "--model", "--fake-responses=x", "--record-responses"},
			honest:     []string{`{"general":{"vimMode":true}}`, `{"model":{"maxSessionTurns":5}}`, `{"tools":{"truncateToolOutputThreshold":9}}`},
			honestArgs: []string{"--include-directories", "/tmp"},
		},
		"qwen-code": {
			configs: []string{`{"env":{"OPENAI_BASE_URL":"http://x.example"}}`, `{"proxy":"http://x.example"}`, `{"modelProviders":{"openai":[]}}`, `{"webSearch":{"provider":[]}}`, `{"telemetry":{"otlpEndpoint":"x"}}`,
				`{"privacy":{"usageStatisticsEnabled":true}}`, `{"tools":{"exclude":[]}}`, `{"mcpServers":{"x":{"url":"http://x.example"}}}`, `{"channels":{}}`, `{"model":{"generationConfig":{"extra_body":{"enable_search":true}}}}`},
			args: []string{"--openai-base-url=http://x.example", "--openaiBaseUrl", "--proxy", "--insecure", "--web-search-default", "--tavily-api-key", "--mcp-config={}", "--telemetry", "--bare",
				"--safe-mode", "--external-tool-guard-endpoint=http://x.example"},
			honest:     []string{`{"general":{"vimMode":true}}`, `{"model":{"generationConfig":{"samplingParams":{"temperature":0}}}}`},
			honestArgs: []string{"--max-tool-calls", "9"},
		},
		"opencode": {
			configs: []string{`{"provider":{"securebench":{"options":{"baseURL":"http://x.example"}}}}`, `{"provider":{"other":{}}}`, `{"autoupdate":true}`, `{"share":"auto"}`, `{"plugin":["x"]}`, `{"lsp":{}}`, `{"formatter":true}`,
				`{"mcp":{"x":{"type":"remote","url":"http://x.example"}}}`, `{"experimental":{"openTelemetry":true}}`, `{"instructions":["http://x.example/x"]}`, `{"small_model":"x/y"}`, `{"agent":{"build":{"model":"x/y"}}}`, `{"model":"x/y"}`},
			args:       []string{"--share", "--attach=http://x.example", "--model", "-m", "--port", "--pure=false", "--no-pure", "--yolo", "--demo"},
			honest:     []string{`{"snapshot":false}`, `{"agent":{"build":{"temperature":0}}}`, `{"permission":{"bash":"allow"}}`, `{"tools":{"git *":false}}`},
			honestArgs: []string{"--thinking", "--variant", "high"},
		},
		"mini-swe-agent": {
			configs: []string{`{"environment":{"environment_class":"docker"}}`, `{"environment":{"env":{"OPENAI_BASE_URL":"http://x.example"}}}`, `{"environment":7}`, `{"model":{"model_name":"x"}}`,
				`{"model":{"model_class":"deterministic"}}`, `{"model":{"model_kwargs":{"api_base":"http://x.example"}}}`, `{"model":{"model_kwargs":{"base_url":"http://x.example"}}}`,
				`{"model":{"model_kwargs":{"api_key":"x"}}}`, `{"model":{"model_kwargs":{"custom_llm_provider":"ollama"}}}`, `{"model":{"model_kwargs":{"extra_body":{"web_search_options":{}}}}}`,
				`{"model":{"model_kwargs":{"extra_headers":{"x":"y"}}}}`, `{"model":{"model_kwargs":{"tools":[{"type":"web_search"}]}}}`, `{"model":{"model_kwargs":{"mock_response":"4"}}}`,
				`{"model":{"model_kwargs":{"fallbacks":["x"]}}}`, `{"model":{"model_kwargs":[]}}`, `{"model":{"litellm_model_registry":"/x"}}`, `{"agent":{"mode":"confirm"}}`, `{"agent":{"cost_limit":1}}`,
				`{"agent":{"step_limit":1}}`, `{"agent":{"agent_class":"x.Y"}}`, `{"agent":{"output_path":"/workspace/x"}}`, `{"run":{"task":"x"}}`, `{"agent":{"system_template":"x","mode":"human"}}`,
				`{"model":{"model_kwargs":{"langfuse_host":"http://x.example"}}}`, `{"model":{"model_kwargs":{"aws_bedrock_runtime_endpoint":"http://x.example"}}}`, `{"model":7}`, `{"other":1}`, `{"agent.mode":"confirm"}`, `{"agent=1,x":1}`},
			honest: []string{`{"model":{"model_kwargs":{"temperature":0.25,"reasoning_effort":"low"}}}`, `{"agent":{"wall_time_limit_seconds":900,"system_template":"x"}}`,
				`{"model":{"model_kwargs":{"thinking":{"type":"enabled","budget_tokens":1024},"stop":["x"]},"set_cache_control":null}}`, `{"environment":{"timeout":120}}`},
		},
		"aider": {
			args: []string{"--openai-api-base=http://x.example", "--openai-api-key=x", "--anthropic-api-key", "--api-key", "--set-env", "--env-file", "-c", "--config=/x", "--model", "--weak-model",
				"--editor-model", "--sonnet", "--4o", "-4", "--model-settings-file", "--alias", "--analytics", "--no-analytics-disable", "--no-verify-ssl", "--check-update", "--upgrade", "--detect-urls",
				"--auto-commits", "--message", "-m", "--message-file", "--load", "--apply", "--gui", "--notifications-command", "--no-yes-always", "--llm-history-file", "--system-prompt=x",
				"--reasoning-effort", "--", "-cx"},
			honestArgs: []string{"--edit-format", "diff", "--map-tokens=0", "--auto-lint", "--no-stream", "--thinking-tokens", "1k"},
		},
	}
}

// TestRefused: no configuration and no word of an operator's opens what a description
// keeps closed. What opens nothing is accepted.
func TestRefused(t *testing.T) {
	t.Parallel()
	all := hostile()
	for _, a := range Builtin() {
		of, ok := all[a.Name]
		if !ok {
			t.Errorf("%s: there is no hostile configuration of it", a.Name)
			continue
		}
		refuses := func(text string) string {
			var config map[string]any
			if err := json.Unmarshal([]byte(text), &config); err != nil {
				t.Fatal(err)
			}
			return a.Refuses(config)
		}
		if (a.Accepts.Config == nil) != (len(of.configs) == 0) || (a.Accepts.Args == nil) != (len(of.args) == 0) {
			t.Errorf("%s: what it accepts is not what is tried", a.Name)
			continue
		}
		weak := a
		if weak.Config = nil; a.Accepts.Config != nil {
			weak.Accepts.Config = &Config{Each: a.Accepts.Config.Each, Words: a.Accepts.Config.Words}
		}
		open := 0
		for _, text := range of.configs {
			if refuses(text) == "" {
				t.Errorf("%s accepts %s", a.Name, text)
			}
			var config map[string]any
			_ = json.Unmarshal([]byte(text), &config)
			if weak.Refuses(config) == "" {
				open++
			}
		}
		if open < len(of.configs)-4 {
			t.Errorf("%s: without its list, only %d of %d configurations pass", a.Name, open, len(of.configs))
		}
		for _, text := range of.honest {
			if at := refuses(text); at != "" {
				t.Errorf("%s refuses %s because of %s", a.Name, text, at)
			}
		}
		for _, word := range of.args {
			if a.Accepts.Args.Refuses(word) == "" {
				t.Errorf("%s accepts %s", a.Name, word)
			}
		}
		for _, word := range of.honestArgs {
			if why := a.Accepts.Args.Refuses(word); why != "" {
				t.Errorf("%s: %s %s", a.Name, word, why)
			}
		}
	}
}

// TestWith: what an operator adds goes where the description says, beside what that has,
// and is not looked at for placeholders.
func TestWith(t *testing.T) {
	t.Parallel()
	add := Added{Args: []string{"--fast"}, Config: map[string]any{"general": map[string]any{"{model}": "{relay}"}, "n": 3.0},
		Servers: []Server{{Name: "s", Command: []string{"py", "{key}"}, Env: map[string]string{"A": "b"}}, {Name: "t", Command: []string{"t"}}}}
	form := []byte(`{"type":"stdio","command":"{program}","args":"{args}","all":"{command}","env":"{env}"}`)
	const s = `"s":{"all":["py","{key}"],"args":["{key}"],"command":"py","env":{"A":"b"},"type":"stdio"}`
	const both = `{` + s + `,"t":{"all":["t"],"args":[],"command":"t","type":"stdio"}}`
	const own = `{"general":{"update":false}}`
	for _, tt := range []struct {
		accepts Accepts
		words   []string
		config  string
	}{
		{Accepts{Config: &Config{}, MCP: &MCP{At: "mcp.servers", Server: form}}, []string{"--fast"},
			`{"general":{"update":false,"{model}":"{relay}"},"mcp":{"servers":` + both + `},"n":3}`},
		{Accepts{Config: &Config{Words: []string{"--set", "{values}"}}, MCP: &MCP{At: "m", Server: form, Words: []string{"--mcp={servers}"}}},
			[]string{"--set", `{"general":{"{model}":"{relay}"},"n":3}`, `--mcp={"m":` + both + `}`, "--fast"}, own},
		{Accepts{Config: &Config{Each: []string{"-c", "{path}={value}"}}, MCP: &MCP{At: "m", Server: []byte(`{"env":"{env}","run":"{program}"}`)}},
			[]string{"-c", `general.{model}="{relay}"`, "-c", `m.s.env.A="b"`, "-c", `m.s.run="py"`, "-c", `m.t.run="t"`, "-c", "n=3", "--fast"}, own},
	} {
		words, config, err := Agent{Accepts: tt.accepts}.With(add, own)
		if d := cmp.Diff(tt.words, words); d != "" || err != nil || config != tt.config {
			t.Errorf("%s\n%s, want\n%s: %v", d, config, tt.config, err)
		}
	}
	if words, config, err := (Agent{}).With(Added{}, ""); len(words) != 0 || config != "{}" || err != nil {
		t.Errorf("%q %s %v", words, config, err)
	}
}

// TestBadAccepts: what a description says of additions is checked.
func TestBadAccepts(t *testing.T) {
	t.Parallel()
	for accepts, want := range map[string]string{
		"{config: {}}":                            "accepts: want {config} in",
		"{mcp: {at: x, server: {a: b}}}":          "accepts: want {config} in",
		"{config: {allow: [a.], words: [x]}}":     `config: allow: "a." is not a path`,
		"{config: {refuse: [a..b], words: [x]}}":  `config: refuse: "a..b" is not a path`,
		"{args: {refuse: [x]}}":                   `args: refuse: "x" is not a flag`,
		"{mcp: {at: '', server: {}, words: [x]}}": "mcp: at: want a path",
		"{mcp: {at: x, server: [], words: [x]}}":  "mcp: server: want an object",
		"{tools: {}}":                             "a.yaml:6:",
	} {
		text := strings.Replace(a, `"{prompt}"]`, `"{settings}", "{prompt}"]`, 1) + "accepts: " + accepts + "\n"
		if strings.HasPrefix(accepts, "{config: {}") || strings.Contains(accepts, "{a: b}") {
			text = a + "accepts: " + accepts + "\n"
		}
		if _, err := Parse("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", accepts, err, want)
		}
	}
}

// FuzzConfig: whatever an operator adds, what the description has stays as it is, and no
// value comes below a refused path.
func FuzzConfig(f *testing.F) {
	for _, of := range hostile() {
		for _, text := range slices.Concat(of.configs, of.honest) {
			f.Add([]byte(text))
		}
	}
	gemini, _ := Find("gemini-cli")
	f.Fuzz(func(t *testing.T, text []byte) {
		var config map[string]any
		if json.Unmarshal(text, &config) != nil || gemini.Refuses(config) != "" {
			return
		}
		_, out, err := gemini.With(Added{Config: config}, string(gemini.Config))
		if err != nil {
			t.Skip() // no JSON: a number of the fuzzer's
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		tools, _ := got["tools"].(map[string]any)
		want := []any{map[string]any{"enabled": false}, map[string]any{"usageStatisticsEnabled": false}, nil, []any{"google_web_search", "web_fetch"}}
		if d := cmp.Diff(want, []any{got["telemetry"], got["privacy"], got["mcpServers"], tools["exclude"]}); d != "" {
			t.Errorf("%s becomes %s: %s", text, out, d)
		}
	})
}
