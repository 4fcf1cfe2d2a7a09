package relay

import (
	"net/http"
	"strings"

	"securebench/internal/gateway/relay/steps"
	"securebench/internal/gateway/relay/wire"
	"securebench/internal/lazyregexp"
)

// The paths of Anthropic's API.
const (
	pathMessages = "/v1/messages"
	pathCount    = "/v1/messages/count_tokens"
)

// messages is Anthropic's Messages API. Claude Code repeats a request after 400 and 429,
// but not after 403.
func messages() *dialect {
	return &dialect{
		api: Messages, name: "the Messages API", wire: wire.Messages(), steps: steps.Messages(), served: "POST " + pathMessages,
		route: exact(map[string]kind{"POST " + pathMessages: asks, "POST " + pathCount: counts, "GET " + pathModels: lists}),
		query: func(_ endpoint, query string) (string, []string, bool) {
			return query, nil, query == "" || query == "beta=true"
		},
		passed: "User-Agent Anthropic-Version X-App X-Claude-Code-Session-Id" +
			" X-Stainless-Arch X-Stainless-Lang X-Stainless-Os X-Stainless-Package-Version" +
			" X-Stainless-Retry-Count X-Stainless-Runtime X-Stainless-Runtime-Version X-Stainless-Timeout",
		accept: "application/json",
		features: func(r *Relay, from, to http.Header) {
			if list := r.betas(from.Values("Anthropic-Beta")); list != "" {
				to.Set("Anthropic-Beta", list)
			}
		},
		stops: http.StatusForbidden, tooLarge: http.StatusRequestEntityTooLarge,
		refusal: func(status int, why reason, message string) any {
			kind := "permission_error"
			switch status {
			case http.StatusBadRequest:
				kind = "invalid_request_error"
			case http.StatusRequestEntityTooLarge:
				kind = "request_too_large"
			}
			return map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message + " (" + string(why) + ")"}}
		},
		probe: func(model string) (string, map[string]any) {
			return pathMessages, map[string]any{"model": model, "max_tokens": 1, "messages": []any{map[string]string{"role": "user", "content": "Say OK."}}}
		},
		list: listed,
	}
}

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

// betas returns those of the features that may be asked for.
func (r *Relay) betas(given []string) string {
	var out []string
	for name := range strings.SplitSeq(strings.Join(given, ","), ",") {
		name = strings.TrimSpace(name)
		m := beta.FindStringSubmatch(name)
		if m != nil && len(out) < 100 && (r.cfg.AllowExternalTools || strings.Contains(betas, " "+m[1]+" ")) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}
