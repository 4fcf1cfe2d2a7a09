package harness

import (
	"maps"
	"slices"
	"strings"

	"securebench/internal/agent/events"
	"securebench/internal/config"
	"securebench/internal/source"
)

// ParseClaudeCode reads the section of Anthropic's Claude Code CLI, which
// has a default model.
func ParseClaudeCode(c config.Harness) (Harness, source.Problems) { return parse(c, parseClaudeCode) }

func parseClaudeCode(p *parser) Harness {
	a := p.agent(program{
		name: "claude_code", api: MessagesAPI, baseURL: "https://api.anthropic.com",
		keys:    []string{"ANTHROPIC_API_KEY"},
		overlay: "/opt/securebench/claude-code", home: "/opt/securebench/claude-home",
		output: events.ClaudeCode, argv: claudeArgv, env: claudeEnv,
	}, "sonnet", "small_model")
	return &claudeCode{a}
}

// claudeCode is the harness of Claude Code. Its models can be aliases.
type claudeCode struct{ *agent }

// smallModel reads the model for small matters. It is never resolved, so it
// cannot be an alias.
func (p *parser) smallModel() string {
	s := p.model("small_model", "")
	if n, what := p.get("small_model"); slices.Contains([]string{"default", "best", "sonnet", "opus", "haiku", "opusplan", "inherit", "fable"}, strings.ToLower(s)) {
		p.ps.Add(n.Pos, "write the full name, such as claude-haiku-4-5", "%s is the alias %q", what, s)
	}
	return s
}

// Alias returns the model, if it is not a full name.
func (c *claudeCode) Alias() string {
	if c.alias != "" || strings.HasPrefix(c.relay.Model, "claude-") {
		return ""
	}
	return c.relay.Model
}

// Means reports whether a model has the name of the alias in its own, as all but
// those have that stand for a choice.
func (c *claudeCode) Means(model string) bool {
	switch alias := strings.ToLower(c.relay.Model); alias {
	case "default", "best", "opusplan", "inherit":
		return strings.HasPrefix(model, "claude-")
	default:
		return strings.Contains(strings.ToLower(model), alias)
	}
}

// Pinned returns the harness with the full name of its model.
func (c *claudeCode) Pinned(model string) Harness {
	a := *c.agent
	a.alias, a.relay.Model = a.relay.Model, model
	a.relay.Prices = maps.Clone(a.relay.Prices)
	if price, ok := a.relay.Prices[a.alias]; ok {
		a.relay.Prices[model] = price
	}
	return &claudeCode{&a}
}

// Probe plans a run without a task, whose first request names the model.
func (c *claudeCode) Probe() Plan {
	p := Plan{Workdir: c.home, Metadata: map[string]any{"harness": c.name}}
	c.run(&p, "Answer with the word OK.")
	p.Env = append(p.Env, "ANTHROPIC_SMALL_FAST_MODEL="+ProbeSmallModel)
	p.Domains, p.Private = nil, nil
	return p
}

// claudeArgv runs Claude Code without questions. Its web search runs at the
// provider, and its fetches ask a service of the vendor first. A repository's own
// settings could lead it past the relay and run hooks, so they are not read; the
// repository's CLAUDE.md is, as another folder's.
func claudeArgv(a *agent, prompt string) []string {
	argv := []string{a.overlays()[0].Binary(), "-p", "--output-format", "stream-json", "--verbose",
		"--dangerously-skip-permissions", "--no-session-persistence",
		"--setting-sources=user", "--strict-mcp-config", "--add-dir=.", "--model", a.relay.Model}
	if !a.relay.AllowExternalTools {
		argv = append(argv, "--disallowedTools=WebSearch,WebFetch")
	}
	return append(argv, "--", prompt)
}

// claudeEnv switches off whatever would talk to anybody but the provider or
// outlive the attempt. IS_SANDBOX tells the program that it is in a sandbox, where
// it agrees to run as root. Other users get it as well, so that all behave alike.
func claudeEnv(a *agent) []string {
	env := []string{
		"ANTHROPIC_BASE_URL=http://" + RelayAddress,
		"CLAUDE_CONFIG_DIR=" + a.home,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"CLAUDE_CODE_DISABLE_AUTO_MEMORY=1", "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL=1",
		"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD=1",
		"IS_SANDBOX=1",
	}
	if a.alias == "" && !strings.HasPrefix(a.relay.Model, "claude-") {
		return env // an alias means what the program says
	}
	small := a.relay.SmallModel
	if small == "" {
		small = a.relay.Model
	}
	// Sub-agents ask for models by alias. All are the configured ones.
	return append(env, "ANTHROPIC_SMALL_FAST_MODEL="+small, "ANTHROPIC_DEFAULT_HAIKU_MODEL="+small,
		"ANTHROPIC_DEFAULT_SONNET_MODEL="+a.relay.Model, "ANTHROPIC_DEFAULT_OPUS_MODEL="+a.relay.Model,
		"ANTHROPIC_DEFAULT_FABLE_MODEL="+a.relay.Model)
}
