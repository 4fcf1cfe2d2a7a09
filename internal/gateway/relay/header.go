package relay

import (
	"net/http"
	"strings"

	"securebench/internal/lazyregexp"
)

// maxHeaderValue bounds a header that is passed on.
const maxHeaderValue = 8 << 10

// passedOn are the headers that a provider gets from the agent, if they are
// there. They name the program, the conversation and the form of the request.
// All others are left out, above all those that name an account.
const (
	passedToOpenAI = "User-Agent Originator Session-Id Thread-Id X-Client-Request-Id" +
		" X-Codex-Beta-Features X-Codex-Parent-Thread-Id X-Codex-Turn-Metadata X-Codex-Window-Id" +
		" X-Openai-Internal-Codex-Responses-Lite X-Openai-Subagent"
	passedToAnthropic = "User-Agent Anthropic-Version X-App X-Claude-Code-Session-Id" +
		" X-Stainless-Arch X-Stainless-Lang X-Stainless-Os X-Stainless-Package-Version" +
		" X-Stainless-Retry-Count X-Stainless-Runtime X-Stainless-Runtime-Version X-Stainless-Timeout"
)

// betas are the features of Anthropic's API that a request may ask for, without
// their dates. They change the form of requests and responses. Those that let the
// provider run, fetch or keep something, or use another model or a dearer tier,
// are left out.
const betas = " advanced-tool-use auto-mode-classifier claude-code claude-code-side-query compact context-1m" +
	" context-hint context-management dangerous-tool-use effort extended-cache-ttl" +
	" fine-grained-tool-streaming inline-tools interleaved-thinking mid-conversation-system" +
	" mid-conversation-system-clear-at mid-conversation-tool-changes output-128k per-turn-control" +
	" prompt-caching prompt-caching-evict prompt-caching-scope redact-thinking structured-outputs" +
	" task-budgets thinking-binding-controls thinking-display-updates thinking-token-count timing" +
	" token-counting token-efficient-tools tool-examples tool-provenance tool-search-tool "

// beta matches a feature, whose name is followed by a date.
var beta = lazyregexp.New(`^([a-z0-9-]+?)-20[0-9]{2}-?[0-9]{2}-?[0-9]{2}$`)

// header returns the headers of a request to the provider.
func (a *Attempt) header(from http.Header, stream bool) http.Header {
	out := http.Header{
		"Content-Type":    {"application/json"},
		"Accept":          {"application/json"},
		"Accept-Encoding": {"identity"},
		"User-Agent":      {""}, // none, unless the agent has one
	}
	if stream && !a.relay.messages() {
		out.Set("Accept", "text/event-stream")
	}
	names := passedToOpenAI
	if a.relay.messages() {
		names = passedToAnthropic
	}
	for name := range strings.FieldsSeq(names) {
		if v := from.Get(name); v != "" && len(v) <= maxHeaderValue && !strings.ContainsFunc(v, unprintable) {
			out.Set(name, v)
		}
	}
	if a.relay.messages() {
		if list := a.betas(from.Values("Anthropic-Beta")); list != "" {
			out.Set("Anthropic-Beta", list)
		}
	}
	a.relay.authorize(out)
	return out
}

// betas returns those of the features that may be asked for.
func (a *Attempt) betas(given []string) string {
	var out []string
	for name := range strings.SplitSeq(strings.Join(given, ","), ",") {
		name = strings.TrimSpace(name)
		m := beta.FindStringSubmatch(name)
		if m != nil && len(out) < 100 && (a.relay.cfg.AllowExternalTools || strings.Contains(betas, " "+m[1]+" ")) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

// authorize adds the key.
func (r *Relay) authorize(h http.Header) {
	if r.messages() {
		h.Set("X-Api-Key", r.key)
		if h.Get("Anthropic-Version") == "" {
			h.Set("Anthropic-Version", "2023-06-01")
		}
		return
	}
	h.Set("Authorization", "Bearer "+r.key)
}

func unprintable(c rune) bool { return c < ' ' || c > '~' }
