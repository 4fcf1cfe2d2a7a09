// Package accesstest has servers of models as their users know them, for the tests of
// those who ask them: a relay, and this process.
package accesstest

import (
	"net/http"

	"securebench/internal/gateway/access"
)

// Server is a server of models: the end of its base URL, a name of a model, where the key
// goes, and how it refuses.
type Server struct {
	Name, Base, Model string
	Key               string // in the variable KEY
	Headers           []access.Header
	Path              string      // that is asked
	Want              http.Header // with which it is asked; nil is none of a name
	Status            int         // of a refusal
	Refusal, Says     string      // its body, and how it is shown
}

// Address is where a server is that listens at a URL.
func (s Server) Address(url string) access.Address {
	at := access.Address{API: access.Chat, BaseURL: url + s.Base, KeyEnv: "KEY", Headers: s.Headers}
	if len(s.Headers) > 0 && s.Headers[0].Credential() {
		at.KeyEnv = ""
	}
	return at
}

// Servers are those of the documents, which speak Chat Completions, and what stands before
// some.
func Servers() []Server {
	bearer := func(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }
	const long = "sk-canary-0123456789"
	return []Server{
		{"vLLM", "/v1", "/models/qwen.gguf", "EMPTY", nil, "/v1/chat/completions", bearer("EMPTY"), 400,
			`{"error":{"message":"This model's maximum context length is 32 tokens.","type":"BadRequestError","param":null,"code":400}}`, "This model's maximum context length is 32 tokens."},
		{"vLLM without a key", "", "Qwen/Qwen3-8B", "", nil, "/v1/chat/completions", http.Header{"Authorization": nil}, 401, `{"error":"Unauthorized"}`, "Unauthorized"},
		{"Ollama", "/v1/", "gpt-oss:20b", "ollama", nil, "/v1/chat/completions", bearer("ollama"), 404,
			`{"error":{"message":"model \"gpt-oss:20b\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, "try pulling it first"},
		{"llama.cpp", "", "any model", "", nil, "/v1/chat/completions", http.Header{"Authorization": nil}, 400,
			`{"error":{"code":400,"message":"request (9 tokens) exceeds the available context size (8 tokens)","type":"exceed_context_size_error"}}`, "exceeds the available context size"},
		{"LiteLLM", "", "openai/gpt-oss-120b", long, nil, "/v1/chat/completions", bearer(long), 400,
			`{"error":{"message":"litellm.BadRequestError: LLM Provider NOT provided.","type":null,"param":null,"code":"400"}}`, "LLM Provider NOT provided."},
		{"OpenRouter", "/api/v1", "openai/gpt-oss-120b:nitro", long, []access.Header{{Name: "HTTP-Referer", Text: "https://site.example"}, {Name: "X-Title", Text: "bench"}},
			"/api/v1/chat/completions", http.Header{"Authorization": {"Bearer " + long}, "Http-Referer": {"https://site.example"}, "X-Title": {"bench"}}, 400,
			`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"prompt is too long"}},"user_id":"u"}`, "Provider returned error: prompt is too long"},
		{"Azure", "/openai/deployments/gpt?api-version=2024-10-21", "gpt", long, []access.Header{{Name: "api-key", Text: "${KEY}"}},
			"/openai/deployments/gpt/chat/completions?api-version=2024-10-21", http.Header{"Api-Key": {long}, "Authorization": nil}, 404,
			`{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, "The API deployment for this resource does not exist."},
		{"Gemini", "/v1beta/openai/", "gemini-3-flash", long, nil, "/v1beta/openai/chat/completions", bearer(long), 400,
			`[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, "API key not valid."},
		{"z.ai", "/api/paas/v4", "glm-5", long, nil, "/api/paas/v4/chat/completions", bearer(long), 400,
			`{"error":{"code":"1211","message":"Unknown Model, please check the model code."}}`, "Unknown Model"},
		{"FastAPI", "/v1", "m", long, nil, "/v1/chat/completions", bearer(long), 422,
			`{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required"}]}`, "body.messages: Field required"},
		{"a web server", "/v1", "m", long, nil, "/v1/chat/completions", bearer(long), 403, "<html><head><title>403 Forbidden</title></head></html>", "403 Forbidden"},
		{"a repeated key", "/v1", "m", long, nil, "/v1/chat/completions", bearer(long), 401, `{"error":{"message":"Incorrect API key provided: sk-ca********6789"}}`, "the key is not accepted"},
	}
}
