package upstream_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"securebench/internal/gateway/upstream"
)

// TestWords: what servers say against a request is found in whatever form they say it.
func TestWords(t *testing.T) {
	for name, tt := range map[string]struct{ body, want string }{
		"OpenAI":            {`{"error":{"message":"Unsupported value: 'temperature'","type":"invalid_request_error","param":"temperature","code":null}}`, "Unsupported value: 'temperature'"},
		"Anthropic":         {`{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: required"}}`, "max_tokens: required"},
		"vLLM":              {`{"object":"error","message":"The model ` + "`x`" + ` does not exist.","type":"NotFoundError","param":null,"code":404}`, "The model `x` does not exist."},
		"vLLM, no key":      {`{"error":"Unauthorized"}`, "Unauthorized"},
		"Ollama":            {`{"error":{"message":"model \"gpt-oss:20b\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, `model "gpt-oss:20b" not found, try pulling it first`},
		"llama.cpp":         {`{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, "Loading model"},
		"LiteLLM":           {`{"error":{"message":"litellm.BadRequestError: LLM Provider NOT provided.","type":null,"param":null,"code":"400"}}`, "litellm.BadRequestError: LLM Provider NOT provided."},
		"OpenRouter":        {`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long\"}}","provider_name":"P"}},"user_id":"u"}`, "Provider returned error: prompt is too long"},
		"Azure":             {`{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, "The API deployment for this resource does not exist."},
		"Azure's gateway":   {`{ "statusCode": 401, "message": "Access denied due to invalid subscription key." }`, "Access denied due to invalid subscription key."},
		"Gemini":            {`[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, "API key not valid. Please pass a valid API key."},
		"z.ai":              {`{"error":{"code":"1211","message":"Unknown Model, please check the model code."}}`, "Unknown Model, please check the model code."},
		"FastAPI":           {`{"detail":"Not Found"}`, "Not Found"},
		"FastAPI, fields":   {`{"detail":[{"type":"missing","loc":["body","messages",0],"msg":"Field required"},{"loc":["body","n"],"msg":"Input should be 1"}]}`, "body.messages: Field required; body.n: Input should be 1"},
		"an event":          {`{"type":"response.failed","response":{"error":{"message":"too much"}}}`, "too much"},
		"a page":            {"<!DOCTYPE html>\n<html><head><title>502 Bad\n Gateway</title></head><body><h1>x</h1></body></html>", "502 Bad Gateway"},
		"a heading":         {"<html><h1 class=a>Not here</h1>", "Not here"},
		"a page of nothing": {"<html></html>", ""},
		"a text":            {"404 page not found\n", "404 page not found"},
		"broken JSON":       {`{"error": "x`, `{"error": "x`},
		"nothing":           {" \n", ""},
		"numbers":           {`{"error":{"code":7}}`, ""},
		"bytes":             {"\xff\xfe", ""},
		"depth":             {strings.Repeat(`{"error":`, 20) + `"deep"` + strings.Repeat("}", 20), ""},
	} {
		if got := upstream.Words([]byte(tt.body)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// FuzzWords: whatever an error is, its words are one line of text.
func FuzzWords(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"m"}}`, `[{"detail":[{"loc":["a"],"msg":"b"}]}]`, "<title>x</title>", "text", `{"error":{"metadata":{"raw":"{\"error\":\"x\"}"},"message":"y"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if words := upstream.Words(body); strings.ContainsAny(words, "\r\n\t") || !utf8.ValidString(words) || len(words) > 3*len(body)+16 {
			t.Errorf("%q says %q", body, words)
		}
	})
}

// TestCode: an error that says that no request can succeed is known in each server's words.
func TestCode(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"code":"insufficient_quota"}}`:                                                upstream.NoCredit,
		`{"error":{"code":"model_not_found"}}`:                                                   upstream.NoModel,
		`{"error":{"code":"DeploymentNotFound","message":"m"}}`:                                  upstream.NoModel,
		`{"error":{"code":"1211","message":"Unknown Model, please check the model code."}}`:      upstream.NoModel,
		`[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}]`:   upstream.NoKey,
		`{"error":{"message":"Request too large for gpt-5.5"}}`:                                  upstream.TooMuch,
		`{"error":"Unauthorized"}`:                                                               "",
		`{"detail":"Not Found"}`:                                                                 "",
		`{"error":{"code":400,"message":"say: API key not valid","param":"insufficient_quota"}}`: "",
		`[]`: "", "": "", "<html>": "",
	} {
		if got := upstream.Code([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	if !upstream.Rejects(400, upstream.NoKey) || upstream.Rejects(400, "") {
		t.Error("a key that is not valid passes, or all is rejected")
	}
}
