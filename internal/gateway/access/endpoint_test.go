package access_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/gateway/access"
	"securebench/internal/redact"
)

const key = "sk-canary-0123456789"

// TestAddresses: base URLs as servers' own pages have them lead to the paths that these
// servers have.
func TestAddresses(t *testing.T) {
	const responses, chat, messages, gemini = "openai_responses", "openai_chat", "anthropic_messages", "gemini"
	for _, tt := range []struct{ server, api, base, path, query, want string }{
		{"OpenAI", responses, "https://api.openai.com", "/v1/responses", "", "https://api.openai.com/v1/responses"},
		{"OpenAI with /v1", responses, "https://api.openai.com/v1/", "/v1/responses", "", "https://api.openai.com/v1/responses"},
		{"Anthropic", messages, "https://api.anthropic.com", "/v1/messages", "beta=true", "https://api.anthropic.com/v1/messages?beta=true"},
		{"vLLM", chat, "http://vllm:8000/v1", "/v1/chat/completions", "", "http://vllm:8000/v1/chat/completions"},
		{"vLLM, bare", chat, "http://vllm:8000", "/v1/models/%2Fmodels%2Fqwen.gguf", "", "http://vllm:8000/v1/models/%2Fmodels%2Fqwen.gguf"},
		{"Ollama", chat, "http://127.0.0.1:11434/v1/", "/v1/chat/completions", "", "http://127.0.0.1:11434/v1/chat/completions"},
		{"llama.cpp", chat, "http://localhost:8080", "/v1/chat/completions", "", "http://localhost:8080/v1/chat/completions"},
		{"LiteLLM", chat, "http://0.0.0.0:4000", "/v1/chat/completions", "", "http://0.0.0.0:4000/v1/chat/completions"},
		{"LiteLLM, Messages", messages, "https://litellm.example/anthropic", "/v1/messages", "", "https://litellm.example/anthropic/v1/messages"},
		{"OpenRouter", chat, "https://openrouter.ai/api/v1", "/v1/chat/completions", "", "https://openrouter.ai/api/v1/chat/completions"},
		{"Azure", chat, "https://x.openai.azure.com/openai/deployments/gpt?api-version=2024-10-21", "/v1/chat/completions", "",
			"https://x.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21"},
		{"Azure, /v1", responses, "https://x.openai.azure.com/openai/v1/?api-version=preview", "/v1/responses", "", "https://x.openai.azure.com/openai/v1/responses?api-version=preview"},
		{"Gemini as OpenAI", chat, "https://generativelanguage.googleapis.com/v1beta/openai/", "/v1/chat/completions", "",
			"https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"},
		{"Gemini", gemini, "https://generativelanguage.googleapis.com", "/v1beta/models/g:streamGenerateContent", "alt=sse",
			"https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse"},
		{"z.ai", chat, "https://api.z.ai/api/paas/v4", "/v1/chat/completions", "", "https://api.z.ai/api/paas/v4/chat/completions"},
		{"z.ai, Messages", messages, "https://api.z.ai/api/anthropic", "/v1/messages", "", "https://api.z.ai/api/anthropic/v1/messages"},
		{"DeepSeek, Messages with /v1", messages, "https://api.deepseek.com/anthropic/v1", "/v1/messages", "", "https://api.deepseek.com/anthropic/v1/messages"},
		{"the operator's query", messages, "https://g.example/?beta=false&a=b", "/v1/messages", "beta=true&limit=1", "https://g.example/v1/messages?beta=false&a=b&limit=1"},
	} {
		clean, fault := access.Clean(tt.api, tt.base)
		if fault != "" {
			t.Errorf("%s: %s", tt.server, fault)
			continue
		}
		for _, base := range []string{tt.base, clean} {
			e, err := access.New(access.Address{API: tt.api, BaseURL: base}, access.Keys{})
			if err != nil {
				t.Fatal(err)
			}
			if got := e.URL(tt.path, tt.query); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.server, got, tt.want)
			}
		}
	}
}

// TestKeys: each server gets its key in the header that it looks at, and the operator's
// headers, whatever was there before.
func TestKeys(t *testing.T) {
	environment := map[string]string{"OPENAI_API_KEY": key, "AZURE": "az-canary-0123456789", "SITE": "https://site.example"}
	get := func(name string) string { return environment[name] }
	for name, tt := range map[string]struct {
		at   access.Address
		want http.Header
	}{
		"OpenAI":    {access.Address{API: "openai_chat", KeyEnv: "OPENAI_API_KEY"}, http.Header{"Authorization": {"Bearer " + key}}},
		"Anthropic": {access.Address{API: "anthropic_messages", KeyEnv: "OPENAI_API_KEY"}, http.Header{"X-Api-Key": {key}, "Authorization": {"agent"}, "Anthropic-Version": {"agent"}}},
		"Gemini":    {access.Address{API: "gemini", KeyEnv: "OPENAI_API_KEY"}, http.Header{"X-Goog-Api-Key": {key}, "Authorization": {"agent"}}},
		"Azure": {access.Address{API: "openai_chat", Headers: []access.Header{{Name: "api-key", Text: "${AZURE}"}}},
			http.Header{"Api-Key": {"az-canary-0123456789"}, "Authorization": {"agent"}}},
		"OpenRouter": {access.Address{API: "openai_chat", KeyEnv: "OPENAI_API_KEY", Headers: []access.Header{{Name: "HTTP-Referer", Text: "${SITE}/x"}, {Name: "X-Title", Text: "bench"}}},
			http.Header{"Authorization": {"Bearer " + key}, "Http-Referer": {"https://site.example/x"}, "X-Title": {"bench"}}},
		"a token": {access.Address{API: "anthropic_messages", Headers: []access.Header{{Name: "authorization", Text: "Bearer ${AZURE}"}}}, http.Header{"Authorization": {"Bearer az-canary-0123456789"}, "Anthropic-Version": {"agent"}}},
	} {
		tt.at.BaseURL = "https://h.example"
		keys, err := tt.at.Read(get)
		if err != nil {
			t.Fatal(name, err)
		}
		e, err := access.New(tt.at, keys)
		if err != nil {
			t.Fatal(name, err)
		}
		got := http.Header{"Authorization": {"agent"}}
		for h := range tt.want {
			got.Set(h, "agent")
		}
		e.Sign(got)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
		var secrets redact.Registry
		if err := keys.Hide(&secrets, ""); err != nil {
			t.Fatal(err)
		}
		for _, v := range tt.at.Variables() {
			if text := secrets.Bytes([]byte(environment[v])); strings.Contains(string(text), environment[v]) {
				t.Errorf("%s: %s is not redacted", name, v)
			}
		}
		if printed := fmt.Sprintf("%v %+v %#v %v %#v", keys, keys, keys, e, e); strings.Contains(printed, "canary") {
			t.Errorf("%s: prints %s", name, printed)
		}
	}
	_, err := access.Address{API: "openai_chat", BaseURL: "https://h.example", Headers: []access.Header{{Name: "X", Text: "${NONE}"}}}.Read(get)
	if err == nil || !strings.Contains(err.Error(), "set NONE in the environment") {
		t.Error(err)
	}
}

// TestPlainText: a key crosses no network in plain text unless the operator lets it, and
// then only to private addresses. Without a key, http goes anywhere.
func TestPlainText(t *testing.T) {
	get := func(string) string { return key }
	for _, tt := range []struct {
		base         string
		named, plain bool
		sent         bool
		fault        string
	}{
		{"http://127.0.0.1:1", false, false, true, ""},
		{"http://[::1]:1", true, false, true, ""},
		{"http://vllm:8000", false, false, false, ""}, // the variable is there for another provider
		{"http://vllm:8000", true, false, false, "network"},
		{"http://vllm:8000", true, true, true, ""},
		{"http://10.0.0.1", true, true, true, ""},
		{"http://[fd00::1]", true, true, true, ""},
		{"http://9.9.9.9", true, true, false, "internet"},
		{"http://9.9.9.9", false, false, false, ""},
		{"http://169.254.169.254", true, true, false, "internet"},
		{"http://[fe80::1%25eth0]", true, true, false, "internet"},
		{"http://127.0.0.1.example", true, false, false, "network"},
		{"https://9.9.9.9", true, false, true, ""},
	} {
		at := access.Address{API: "openai_chat", BaseURL: tt.base, KeyEnv: "K", KeyNamed: tt.named, PlainHTTP: tt.plain}
		fault := at.Fault()
		if (fault == "") != (tt.fault == "") || !strings.Contains(fault, tt.fault) {
			t.Errorf("%+v: %q", tt, fault)
		}
		if fault != "" { // who does not ask is stopped as well
			if _, err := access.New(at, access.Keys{Key: key}); err == nil {
				t.Errorf("%+v: the key is taken there", tt)
			}
			continue
		}
		keys, err := at.Read(get)
		if err != nil || (keys.Key != "") != tt.sent || keys.Unsent == tt.sent {
			t.Errorf("%+v: sent %v: %v", tt, keys.Key != "", err)
		}
		if _, err := access.New(at, keys); err != nil {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestApart: no part of a key is shown that a provider repeats.
func TestApart(t *testing.T) {
	keys := access.Keys{Key: key}
	for text, want := range map[string]bool{"Incorrect API key provided: sk-ca****6789": false, "ends in 6789": false, "the model does not exist": true, "sk-": true, "": true} {
		if keys.Apart(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	for name, tt := range map[string]struct{ key, text string }{
		"no key":                 {"", "anything"},
		"a word as a key":        {"ollama", "ollama has no model m-1"},
		"words that keys have":   {"sk-proj-Xq81mZw0Lr5T", "the project has no access"},
		"words of a key in test": {"sk-model-canary-4f1d", "this model does not read images"},
	} {
		if !(access.Keys{Key: tt.key}).Apart(tt.text) {
			t.Errorf("%s: %q is hidden", name, tt.text)
		}
	}
}

// TestNoKey: a provider that wants no key is asked without one.
func TestNoKey(t *testing.T) {
	none := func(string) string { return "" }
	_, err := access.Address{API: "openai_chat", BaseURL: "https://h.example", KeyEnv: "K"}.Read(none)
	if !errors.Is(err, access.ErrNoKey) || !strings.Contains(err.Error(), "set K") {
		t.Error(err)
	}
	for _, at := range []access.Address{{BaseURL: "https://h.example"}, {BaseURL: "http://vllm:8000/v1", KeyEnv: "K"}} {
		keys, err := at.Read(none)
		if err != nil {
			t.Error(err)
		}
		e, err := access.New(at, keys)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		if e.Sign(h); len(h) > 0 {
			t.Errorf("%+v: %v", at, h)
		}
	}
}

// TestRedirects: a redirect takes no key along.
func TestRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked with %v", r.Header) }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	e, err := access.New(access.Address{API: "openai_chat", BaseURL: first.URL}, access.Keys{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL("/v1/chat/completions", ""), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	e.Sign(r.Header)
	response, err := e.Transport().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("status %d: %v", response.StatusCode, err)
	}
}

// FuzzClean: whatever a base URL is, its normal form is its own, and has neither user nor
// fragment.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"https://h.example/a/v1/?b=c", "http://[::1]:1", "https://u:p@h", "https://h/%2e%2e/#", "https://h?key=1", "//x", "https://h?", "http://0/!/"} {
		f.Add("openai_chat", s)
		f.Add("anthropic_messages", s)
	}
	f.Fuzz(func(t *testing.T, api, text string) {
		clean, fault := access.Clean(api, text)
		if fault != "" {
			return
		}
		again, fault := access.Clean(api, clean)
		if fault != "" || again != clean {
			t.Errorf("%q is %q, and that %q %s", text, clean, again, fault)
		}
		if u, err := url.Parse(clean); err != nil || u.User != nil || u.Host == "" || strings.ContainsAny(clean, "#\\ ") {
			t.Errorf("%q is %q: %v", text, clean, err)
		}
		e, err := access.New(access.Address{API: api, BaseURL: clean}, access.Keys{})
		if err != nil || !strings.HasPrefix(e.URL("/v1/x", ""), "http") {
			t.Errorf("%q: %v", clean, err)
		}
	})
}
