package harness_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAgentProblems: every bad value is refused at its place, with what to do.
func TestAgentProblems(t *testing.T) {
	const (
		unbound = " (leave it out for no bound)"
		price   = " (write USD per million tokens, such as {input: 1.25, cached_input: 0.125, output: 10})"
		url     = " (write one such as https://api.openai.com)"
		plain   = " (allow_plain_http: true sends keys to addresses of a private network; without a key, http goes anywhere)"
		header  = " (write one such as api-key: ${MY_KEY}, with the name of a variable)"
	)
	for name, tt := range map[string]struct{ cfg, want string }{
		"flag as model":     {"--yolo", "1:9: harness.config.model must be a text without control characters, of at most 256 bytes, and not begin with a hyphen"},
		"number as version": {"m, version: 1.2", `1:21: harness.config.version must be a non-empty string, not a number (quote it: "1.2")`},
		"range":             {"m, version: ^1.2.3", "1:21: harness.config.version must be latest or an exact version (write one such as 1.2.3)"},
		"tag":               {"m, version: beta", "1:21: harness.config.version must be latest or an exact version (write one such as 1.2.3)"},
		"small model":       {"m, small_model: x", `1:12: harness.config contains unsupported field "small_model" (known: model, version, task_file, timeout_seconds, allowed_domains, allow_private, budget, prices, max_connections, allow_external_tools, base_url, headers, allow_plain_http, auth, reasoning_effort, max_turns, system_prompt, args, config, mcp, files)`},
		"args":              {"m, args: [x, --thing=1, -cx=y, --model, --json=1]", "1:19: harness.config.args[0] is no flag (begin with a flag)\nh.yaml:1:33: harness.config.args[2]: -cx may be several short flags, or one with a value: write each of them as a word of its own\nh.yaml:1:40: harness.config.args[3]: --model is not the operator's to give\nh.yaml:1:49: harness.config.args[4]: --json is not the operator's to give"},
		"no args":           {"m, args: {a: b}", "1:18: harness.config.args must be a list, not an object"},
		"config":            {"m, config: {tui: {}, otel: {exporter: none}}", "1:20: harness.config.config: otel is not the operator's to set: it is securebench's own, or would open the network, telemetry, updates or tools of the provider (remove it)"},
		"no config":         {"m, config: [x]", "1:20: harness.config.config must be an object, not a list (write names of the agent's own configuration and their values)"},
		"files for nothing": {"m, files: [x]", "1:19: harness.config.files are for servers of harness.config.mcp, and there is none (remove it, or name in harness.config.mcp what is started)"},
		"no files":          {"m, mcp: {a: {command: [x, '{files}/y']}}", "1:17: harness.config.mcp names {files}, and there are none (list in harness.config.files what the servers need)"},
		"no servers":        {"m, mcp: {}", "1:17: harness.config.mcp must be an object with 1 to 32 servers (write one such as docs: {command: [python3, '{files}/docs.py']})"},
		"server's name":     {"m, mcp: {'a.b': {command: [x]}}", `1:18: harness.config.mcp: "a.b" cannot be the name of a server (use letters, digits, - and _)`},
		"server":            {"m, mcp: {a: {command: x, url: y}}", "1:34: harness.config.mcp.a contains unsupported field \"url\" (known: command, env)\nh.yaml:1:21: harness.config.mcp.a.command must be a non-empty list of strings (write one such as docs: {command: [python3, '{files}/docs.py']})"},
		"server's variable": {"m, mcp: {a: {command: [x], env: {'A=B': c}}}", `1:42: harness.config.mcp.a.env: "A=B" is not a variable, or its value is too long or has a NUL`},
		"protocol":          {"m, protocol: acp", `1:12: harness.config contains unsupported field "protocol" (known: model, version, task_file, timeout_seconds, allowed_domains, allow_private, budget, prices, max_connections, allow_external_tools, base_url, headers, allow_plain_http, auth, reasoning_effort, max_turns, system_prompt, args, config, mcp, files)`},
		"external":          {"m, allow_external_tools: yes", "1:34: harness.config.allow_external_tools must be true or false, not yes"},
		"auth":              {"m, auth: subscription", "1:18: harness.config.auth must be api_key or none (write auth: api_key and set the key in the environment or the env file; subscription logins are not supported)"},

		"budget":          {"m, budget: 5", "1:20: harness.config.budget must be an object, not a number (known: requests, tokens, cost, total)"},
		"empty budget":    {"m, budget: {}", "1:20: harness.config.budget sets no bound (set requests, tokens or cost, or leave budget out)"},
		"unknown bound":   {"m, budget: {turns: 1}", `1:21: harness.config.budget contains unsupported field "turns" (known: requests, tokens, cost, total)`},
		"total":           {"m, budget: {total: 5}", "1:28: harness.config.budget.total must be an object, not a number (known: requests, tokens, cost)"},
		"empty total":     {"m, budget: {total: {}}", "1:28: harness.config.budget.total sets no bound (set requests, tokens or cost, or leave total out)"},
		"unknown total":   {"m, budget: {total: {total: {}}}", `1:29: harness.config.budget.total contains unsupported field "total" (known: requests, tokens, cost)`},
		"total of 0":      {"m, budget: {total: {tokens: 0}}", "1:37: harness.config.budget.total.tokens must be from 1 to 9007199254740992" + unbound},
		"total of what":   {"m, budget: {total: {cost: 1}}", `1:35: harness.config.budget.total.cost needs the price of model "m" (add harness.config.prices, or bound requests or tokens instead)`},
		"budget 0":        {"m, budget: {requests: 0}", "1:31: harness.config.budget.requests must be from 1 to 9007199254740992" + unbound},
		"negative tokens": {"m, budget: {tokens: -1}", "1:29: harness.config.budget.tokens must be from 1 to 9007199254740992" + unbound},
		"half a request":  {"m, budget: {requests: 1.5}", "1:31: harness.config.budget.requests must be an integer, not 1.5" + unbound},
		"cost 0":          {"m, budget: {cost: 0}, prices: {m: {input: 1, output: 1}}", "1:27: harness.config.budget.cost must be above 0" + unbound},
		"tiny cost":       {"m, budget: {cost: 1e-9}, prices: {m: {input: 1, output: 1}}", "1:27: harness.config.budget.cost must be from 0.000001 to 1000000 USD" + unbound},
		"cost of nothing": {"m, budget: {cost: 1}", `1:27: harness.config.budget.cost needs the price of model "m" (add harness.config.prices, or bound requests or tokens instead)`},
		"other price":     {"m, budget: {cost: 1}, prices: {n: {input: 1, output: 1}}", `1:39: harness.config.prices has no price of model "m" (add its price in USD per million tokens)`},
		"prices":          {"m, prices: [1]", "1:20: harness.config.prices must be an object, not a list (map a model to its input, cached_input, cache_write and output)"},
		"price":           {"m, prices: {m: 1}", "1:24: harness.config.prices.m must be an object, not a number" + price},
		"part of a price": {"m, prices: {m: {input: 1}}", "1:24: harness.config.prices.m.output is required" + price},
		"negative price":  {"m, prices: {m: {input: -1, output: 1}}", "1:32: harness.config.prices.m.input must be 0 or more" + price},
		"dear":            {"m, prices: {m: {input: 1, output: 1e9}}", "1:43: harness.config.prices.m.output is above 1000000 USD" + price},
		"price in words":  {"m, prices: {m: {input: free, output: 1}}", "1:32: harness.config.prices.m.input must be a positive number, not a string" + price},

		"key in http":    {"m, base_url: http://example.com, headers: {X: '${K}'}", "1:22: harness.config.base_url must be https, because the key would cross the network in plain text" + plain},
		"public":         {"m, base_url: 'http://9.9.9.9', allow_plain_http: true, headers: {X: '${K}'}", "1:22: harness.config.base_url must be https, because the key would cross the internet in plain text" + plain},
		"metadata":       {"m, base_url: 'http://169.254.169.254', allow_plain_http: true, headers: {X: '${K}'}", "1:22: harness.config.base_url must be https, because the key would cross the internet in plain text" + plain},
		"headers":        {"m, headers: [X]", "1:21: harness.config.headers must be an object, not a list" + header},
		"secret header":  {"m, headers: {CF-Access-Client-Secret: s}", "1:22: harness.config.headers.CF-Access-Client-Secret holds a key, so write the name of a variable, such as ${MY_KEY}" + header},
		"key in header":  {"m, headers: {Authorization: Bearer sk-123}", "1:22: harness.config.headers.Authorization holds a key, so write the name of a variable, such as ${MY_KEY}" + header},
		"framing":        {"m, headers: {transfer-encoding: chunked}", "1:22: harness.config.headers.transfer-encoding is set by securebench itself" + header},
		"proxy header":   {"m, headers: {Proxy-Authorization: '${K}'}", "1:22: harness.config.headers.Proxy-Authorization is set by securebench itself" + header},
		"header's name":  {"m, headers: {'a b': x}", "1:22: harness.config.headers.a b is not the name of a header" + header},
		"line in header": {"m, headers: {a: \"x\\ny\"}", "1:22: harness.config.headers.a has a character other than visible ASCII and blanks" + header},
		"reference":      {"m, headers: {a: '${A'}", "1:22: harness.config.headers.a has a reference that is not ${NAME} of a variable" + header},
		"twice":          {"m, headers: {a: x, A: y}", "1:28: harness.config.headers.A is there twice" + header},
		"other scheme":   {"m, base_url: ftp://127.0.0.1", "1:22: harness.config.base_url must begin with https:// or http://" + url},
		"no scheme":      {"m, base_url: api.openai.com", "1:22: harness.config.base_url is not a URL with a host" + url},
		"password":       {"m, base_url: 'https://u:hunter2@h.example'", "1:22: harness.config.base_url contains a user name or a password, where only the environment may hold a key" + url},
		"query":          {"m, base_url: 'https://h.example/?key=hunter2'", "1:22: harness.config.base_url has a key in its query, where only the environment may hold one" + url},
		"fragment":       {"m, base_url: 'https://h.example/#'", "1:22: harness.config.base_url has a fragment" + url},
		"dots":           {"m, base_url: 'https://h.example/a/../b'", "1:22: harness.config.base_url has a path that is not in its plain form" + url},
		"escapes":        {"m, base_url: 'https://h.example/%2e%2e/b'", "1:22: harness.config.base_url has a path that is not in its plain form" + url},
		"port":           {"m, base_url: 'https://h.example:99999'", "1:22: harness.config.base_url has a port that is not from 1 to 65535" + url},
		"not ASCII":      {"m, base_url: 'https://h\u00e4.example'", "1:22: harness.config.base_url has a character other than visible ASCII" + url},
		"a bare address": {"m, base_url: 7", "1:22: harness.config.base_url must be a non-empty string, not a number (quote it: \"7\")"},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := parse(t, "codex", "{model: "+tt.cfg+"}")
			if d := cmp.Diff("h.yaml:"+tt.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	_, got := parse(t, "claude_code", "{small_model: Haiku}")
	if want := `h.yaml:1:15: harness.config.small_model is the alias "Haiku" (write the full name, such as claude-haiku-4-5)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBaseURL: both providers' ways to write it mean the same.
func TestBaseURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://api.openai.com":        "https://api.openai.com",
		"https://api.openai.com/":       "https://api.openai.com",
		"https://api.openai.com/v1":     "https://api.openai.com",
		"https://Api.OpenAI.com:443/v1": "https://api.openai.com:443",
		"https://g.example/openai/v1/":  "https://g.example/openai/v1",
		"https://g.example/v1/x":        "https://g.example/v1/x",
		"http://localhost:11434/v1":     "http://localhost:11434",
		"http://127.8.9.10:80":          "http://127.8.9.10:80",
		"http://[::1]:8080":             "http://[::1]:8080",
		"https://10.0.0.1":              "https://10.0.0.1",
	} {
		h, problem := parse(t, "codex", "{model: m, base_url: '"+in+"'}")
		if problem != "" {
			t.Error(in, problem)
			continue
		}
		if got := h.Needs().Relay.BaseURL; got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// TestVariables: what may not be forwarded is refused at its place, with the
// reason.
func TestVariables(t *testing.T) {
	const (
		noProxy = ", but a sandbox has no network to reach a proxy of yours (remove it; list what the agent may reach in harness.config.allowed_domains, and the sandbox gets the variables of securebench's own proxy)"
		command = ", but a command would get the provider's key itself, and could print it or send it away (remove it and set harness.config.model: then the command reaches its provider through a relay that keeps the key)"
		sets    = " harness sets itself (remove it)"
		base    = ", but the agent's requests go to the relay (remove it and set harness.config.base_url)"
	)
	for _, tt := range []struct{ typ, name, want string }{
		{"command", "OPENAI_API_KEY", command},
		{"command", "anthropic_api_key", command},
		{"command", "ANTHROPIC_AUTH_TOKEN", command},
		{"command", "CLAUDE_CODE_OAUTH_TOKEN", command},
		{"command", "HTTPS_PROXY", noProxy},
		{"command", "no_proxy", noProxy},
		{"command", "OPENAI_BASE_URL", ""},
		{"command", "HOME", ""},
		{"command", "GEMINI_API_KEY", command},
		{"command", "MISTRAL_API_KEY", ""},
		{"codex", "all_proxy", noProxy},
		{"codex", "ANTHROPIC_API_KEY", ", which is not an API key of the codex harness's provider (name OPENAI_API_KEY or CODEX_API_KEY)"},
		{"codex", "OPENAI_BASE_URL", base},
		{"codex", "OPENAI_API_BASE", base},
		{"codex", "CODEX_HOME", ", which the codex" + sets},
		{"codex", "HOME", ", which the codex" + sets},
		{"codex", "PATH", ", which the codex" + sets},
		{"codex", "LANG", ""},
		{"claude_code", "ANTHROPIC_BASE_URL", base},
		{"claude_code", "ANTHROPIC_AUTH_TOKEN", ", which is not an API key of the claude_code harness's provider (name ANTHROPIC_API_KEY)"},
		{"claude_code", "ANTHROPIC_MODEL", ", which the claude_code" + sets},
		{"claude_code", "IS_SANDBOX", ", which the claude_code" + sets},
		{"claude_code", "MAX_THINKING_TOKENS", ""},
	} {
		cfg := map[string]string{"command": "{command: x}", "codex": "{model: m}", "claude_code": "{}"}[tt.typ]
		h, got := parse(t, tt.typ, cfg, "TZ", tt.name)
		want := ""
		if tt.want != "" {
			want = "h.yaml:22:5: harness.env names " + tt.name + tt.want
		} else if names := h.Needs().Env; len(names) != 2 {
			t.Errorf("%s: forwarded %v", tt.name, names)
		}
		if got != want {
			t.Errorf("%s %s:\n%s, want\n%s", tt.typ, tt.name, got, want)
		}
	}
}

// TestAllowPrivate: only hosts that are allowed in full may have private addresses.
func TestAllowPrivate(t *testing.T) {
	const domains = "allowed_domains: [Mirror.example.org, '*.example.net'], allow_private: "
	for list, want := range map[string]string{
		"[mirror.example.org]":           "",
		"['Mirror.Example.org.:8443']":   "",
		"['*.example.net']":              "allow_private[0] is not one of the allowed hosts",
		"[a.example.net]":                "allow_private[0] is not one of the allowed hosts",
		"[mirror.example.org, 10.0.0.1]": "allow_private[1] is not one of the allowed hosts",
		"['mirror.example.org:0']":       "allow_private[0] has a port that is not from 1 to 65535",
		"['mirror.example.org:08']":      "allow_private[0] has a port that is not from 1 to 65535",
		"['mirror.example.org:8443:1']":  "allow_private[0] has a port that is not from 1 to 65535",
		"mirror.example.org":             "allow_private must be",
		"[mirror.example.org/a]":         "allow_private[0] is not one of the allowed hosts",
	} {
		for typ, cfg := range map[string]string{"codex": "{model: m, ", "command": "{command: x, "} {
			h, problem := parse(t, typ, cfg+domains+list+"}")
			if (problem == "") != (want == "") || !strings.Contains(problem, want) {
				t.Errorf("%s: %q, want %q", list, problem, want)
			}
			if want == "" && !strings.HasPrefix(h.Needs().Private[0], "mirror.example.org") {
				t.Errorf("%s: %v", list, h.Needs())
			}
		}
	}
}
