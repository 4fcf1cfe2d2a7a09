package harness

import (
	"fmt"
	"slices"
	"strings"

	"securebench/internal/task"
)

// KeyVariables hold the keys of the providers that the relay speaks to. No
// sandbox ever gets one of them, under whatever name.
func KeyVariables() []string {
	return []string{"OPENAI_API_KEY", "CODEX_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY"}
}

// proxyVariables are obeyed by programs that make requests. Some read them in
// lower case only, some in upper case.
func proxyVariables() []string {
	return []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY"}
}

// steering are the prefixes of variables by which agent programs are set up.
func steering() []string {
	return []string{"OPENAI_", "CODEX_", "ANTHROPIC_", "CLAUDE_", "GEMINI_", "GOOGLE_"}
}

const unproxied = "localhost,127.0.0.1,::1"

// gatewayVariables returns the variables that lead programs to the proxy if
// there are domains. Loopback, where the relay is and where an agent may start
// servers, is never reached through a proxy, not even one that an image names.
func gatewayVariables(domains []string, relay bool) []string {
	values := map[string]string{}
	if len(domains) > 0 || relay {
		values["NO_PROXY"] = unproxied
	}
	if len(domains) > 0 {
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
			values[name] = "http://" + ProxyAddress
		}
	}
	var out []string
	for name, value := range values {
		out = append(out, name+"="+value, strings.ToLower(name)+"="+value)
	}
	slices.Sort(out)
	return out
}

// forwarded returns the names of harness.env that are forwarded, and the one
// among keys that names the relay's key: the first, or "".
func (p *parser) forwarded(keys ...string) (forward []string, key string) {
	for i, name := range p.env {
		fault, fix := p.variableFault(name, keys)
		switch {
		case slices.Contains(keys, name):
			if key == "" {
				key = name
			}
		case fault != "":
			at := p.at
			if i < len(p.envPos) {
				at = p.envPos[i]
			}
			p.ps.Add(at, fix, "harness.env names %s, %s", name, fault)
		default:
			forward = append(forward, name)
		}
	}
	return forward, key
}

// variableFault says why the operator's variable cannot be forwarded, and what
// to do about it. keys are those of the harness's provider, none for a command.
func (p *parser) variableFault(name string, keys []string) (fault, fix string) {
	upper := strings.ToUpper(name)
	agent := len(keys) > 0
	switch {
	case slices.Contains(proxyVariables(), upper):
		return "but a sandbox has no network to reach a proxy of yours",
			"remove it; list what the agent may reach in harness.config.allowed_domains, and the sandbox gets the variables of securebench's own proxy"
	case agent && slices.Contains(KeyVariables(), upper):
		return "which is not an API key of the " + p.typ + " harness's provider", "name " + strings.Join(keys, " or ")
	case slices.Contains(KeyVariables(), upper):
		return "but a command would get the provider's key itself, and could print it or send it away",
			"remove it and set harness.config.model: then the command reaches its provider through a relay that keeps the key"
	case agent && (strings.HasSuffix(upper, "_BASE_URL") || upper == "OPENAI_API_BASE") && steers(upper):
		return "but the agent's requests go to the relay", "remove it and set harness.config.base_url"
	case agent && p.typ != "command" && (steers(upper, p.own...) || upper == "HOME" || upper == "PATH"):
		return "which the " + p.typ + " harness sets itself", "remove it"
	}
	return "", ""
}

// steers reports whether a variable sets up an agent's program. more are the prefixes of
// one agent.
func steers(upper string, more ...string) bool {
	return slices.ContainsFunc(append(steering(), more...), func(prefix string) bool { return strings.HasPrefix(upper, prefix) })
}

// checkRow refuses variables of a row that would lead the agent past the
// gateway, or set the agent's program up in another way than the operator.
// NO_PROXY is harmless: the plan's own value replaces it. owns are the prefixes of the
// agent's own variables.
func checkRow(v task.AgentView, agent bool, owns ...string) error {
	for _, variable := range v.Environment().Env {
		name, _, _ := strings.Cut(variable, "=")
		switch upper := strings.ToUpper(name); {
		case upper != "NO_PROXY" && slices.Contains(proxyVariables(), upper):
			return fmt.Errorf("environment.env sets %s, but the operator decides what the agent can reach (remove it from the row)", name)
		case agent && steers(upper, owns...):
			return fmt.Errorf("environment.env sets %s, but the operator sets up the agent's program (remove it from the row)", name)
		}
	}
	return nil
}
