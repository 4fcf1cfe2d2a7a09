package harness

import (
	"fmt"

	"securebench/internal/agent/events"
	"securebench/internal/config"
	"securebench/internal/source"
)

// ParseCodex reads the section of OpenAI's Codex CLI.
func ParseCodex(c config.Harness) (Harness, source.Problems) { return parse(c, parseCodex) }

func parseCodex(p *parser) Harness {
	return p.agent(program{
		name: "codex", api: ResponsesAPI, baseURL: "https://api.openai.com",
		keys:    []string{"OPENAI_API_KEY", "CODEX_API_KEY"},
		overlay: "/opt/securebench/codex", home: "/opt/securebench/codex-home",
		output: events.Codex, argv: codexArgv, env: codexEnv,
	}, "")
}

// codexArgv runs Codex without its own sandbox: it is in ours, and its own needs
// what no sandbox grants. Everything that would talk to anybody but the provider,
// or keep something, is switched off.
func codexArgv(a *agent, prompt string) []string {
	argv := []string{
		a.overlays()[0].Binary(), "exec", "--json", "--skip-git-repo-check", "--ephemeral", "--dangerously-bypass-approvals-and-sandbox",
		"-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false",
		"--disable", "plugins", "--disable", "apps",
		"-c", "model_provider=securebench",
		"-c", fmt.Sprintf(`model_providers.securebench={name="securebench",base_url="http://%s/v1",env_key="OPENAI_API_KEY",wire_api="responses"}`, RelayAddress),
	}
	if !a.relay.AllowExternalTools {
		argv = append(argv, "-c", `web_search="disabled"`) // it runs at the provider
	}
	return append(argv, "--model", a.relay.Model, prompt)
}

func codexEnv(a *agent) []string { return []string{"CODEX_HOME=" + a.home} }
