package relay

import (
	"net/http"

	"securebench/internal/gateway/relay/steps"
	"securebench/internal/gateway/relay/wire"
)

// The paths of OpenAI's API.
const (
	pathResponses = "/v1/responses"
	pathModels    = "/v1/models"
)

// responses is OpenAI's Responses API. Codex repeats a request after every status but 400
// and 429.
func responses() *dialect {
	return &dialect{
		api: Responses, name: "the Responses API", wire: wire.Responses(), steps: steps.Responses(), served: "POST " + pathResponses,
		route: exact(map[string]kind{"POST " + pathResponses: asks, "GET " + pathModels: lists}),
		query: without,
		passed: "User-Agent Originator Session-Id Thread-Id X-Client-Request-Id" +
			" X-Codex-Beta-Features X-Codex-Parent-Thread-Id X-Codex-Turn-Metadata X-Codex-Window-Id" +
			" X-Openai-Internal-Codex-Responses-Lite X-Openai-Subagent",
		accept: "text/event-stream",
		stops:  http.StatusBadRequest, tooLarge: http.StatusBadRequest, flat: true,
		refusal: openaiRefusal,
		probe: func(model string) (string, map[string]any) {
			return pathResponses, map[string]any{"model": model, "input": "Say OK.", "max_output_tokens": 16, "store": false}
		},
		list: listed,
	}
}

// openaiRefusal is an error in the form of OpenAI's APIs.
func openaiRefusal(_ int, why reason, message string) any {
	type detail struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   *int   `json:"param"`
		Code    reason `json:"code"`
	}
	return map[string]detail{"error": {message, "invalid_request_error", nil, why}}
}

// listed are models in the form of OpenAI's and Anthropic's APIs, with an empty list of
// the form that Codex keeps for itself.
func listed(models []string, _ string) any {
	type model struct {
		ID          string `json:"id"`
		Type        string `json:"type"`
		Object      string `json:"object"`
		Created     int    `json:"created"`
		CreatedAt   string `json:"created_at"`
		OwnedBy     string `json:"owned_by"`
		DisplayName string `json:"display_name"`
	}
	var data []model
	for _, id := range models {
		data = append(data, model{id, "model", "model", 0, "1970-01-01T00:00:00Z", "provider", id})
	}
	return map[string]any{
		"object": "list", "data": data, "has_more": false, "models": []any{},
		"first_id": models[0], "last_id": models[len(models)-1],
	}
}
