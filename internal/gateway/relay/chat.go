package relay

import (
	"net/http"

	"securebench/internal/gateway/relay/steps"
	"securebench/internal/gateway/relay/wire"
)

const pathChat = "/v1/chat/completions"

// chat is OpenAI's Chat Completions, as many servers have it. Programs that speak it give
// up after 403, and know what to do about other errors by their status.
func chat() *dialect {
	return &dialect{
		api: Chat, name: "Chat Completions", wire: wire.Chat(), steps: steps.Chat(), served: "POST " + pathChat,
		route: exact(map[string]kind{"POST " + pathChat: asks, "GET " + pathModels: lists}),
		query: without,
		passed: "User-Agent X-Client-Request-Id" +
			" X-Stainless-Arch X-Stainless-Lang X-Stainless-Os X-Stainless-Package-Version" +
			" X-Stainless-Retry-Count X-Stainless-Runtime X-Stainless-Runtime-Version",
		accept: "text/event-stream",
		stops:  http.StatusForbidden, tooLarge: http.StatusRequestEntityTooLarge,
		refusal: openaiRefusal,
		probe: func(model string) (string, map[string]any) {
			return pathChat, map[string]any{"model": model, "max_tokens": 16, "messages": []any{map[string]string{"role": "user", "content": "Say OK."}}}
		},
		list: listed,
	}
}
