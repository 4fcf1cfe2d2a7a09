package model_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/awaittest"
	"securebench/internal/gateway/access"
)

// served is a server of models as its users know it: the end of its base URL, a name of a
// model, where the key goes, and how it refuses.
type served struct {
	name, base, model string
	key               string // in KEY
	headers           []access.Header
	path              string // that is asked
	want              http.Header
	status            int    // of a refusal
	refusal, says     string // its body, and how it is shown
}

func servers() []served {
	bearer := func(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }
	const long = "sk-canary-0123456789"
	return []served{
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

const chatAnswer = `data: {"model":"m","choices":[{"delta":{"content":"4"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n"

// TestServers: each server is asked at its path, with its key in its header, by its model's
// name, and what it says against a request is shown in one line without the key.
func TestServers(t *testing.T) {
	for _, s := range servers() {
		t.Run(s.name, func(t *testing.T) {
			refuses := false
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet { // of the list of models, which few have
					http.NotFound(w, r)
					return
				}
				if r.RequestURI != s.path {
					t.Errorf("asked at %s", r.RequestURI)
				}
				for name, want := range s.want {
					if got := r.Header.Values(name); strings.Join(got, "|") != strings.Join(want, "|") {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || !strings.Contains(string(body), `"model":"`+s.model+`"`) {
					t.Errorf("asked with %s: %v", body, err)
				}
				if refuses {
					w.WriteHeader(s.status)
					_, _ = io.WriteString(w, s.refusal)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, chatAnswer)
			}))
			defer h.Close()
			at := access.Address{API: access.Chat, BaseURL: h.URL + s.base, KeyEnv: "KEY", Headers: s.headers}
			if len(s.headers) > 0 && s.headers[0].Credential() {
				at.KeyEnv = ""
			}
			keys, err := at.Read(func(string) string { return s.key })
			if err != nil {
				t.Fatal(err)
			}
			c, err := model.Open(t.Context(), model.Config{Settings: harness.Model{Relay: harness.Relay{Address: at, Model: s.model}, MaxTokens: 64}, Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			c.Hurry()
			ask := func() (model.Result, error) {
				return c.Ask(t.Context(), model.Question{Question: harness.Question{User: "2+2?"}, Task: "t", Attempt: 1}, awaittest.Hung, io.Discard)
			}
			if res, err := ask(); err != nil || res.Text != "4" {
				t.Fatalf("%+v: %v", res, err)
			}
			refuses = true
			res, err := ask()
			said := res.Why
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, s.says) || strings.Contains(said, "\n") || strings.Contains(said, "6789") {
				t.Errorf("said %q, want %q", said, s.says)
			}
		})
	}
}
