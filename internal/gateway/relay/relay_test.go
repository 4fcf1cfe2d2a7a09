package relay

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/access"
	"securebench/internal/gateway/ledger"
	"securebench/internal/trajectory"
)

const (
	key   = "sk-canary-0123456789abcdefghij"
	token = "token-of-this-attempt"
	model = "model-1"
)

// plain bodies that every request below begins from.
const (
	codexBody  = `{"model":"model-1","stream":true,"store":false,"input":"hi"}`
	claudeBody = `{"model":"model-1","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`
	geminiBody = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	chatBody   = `{"model":"model-1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
)

const codexStream = "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\"}}\n\n" +
	"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":40},\"output_tokens\":10}}}\n\n"

const claudeStream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":60,\"cache_read_input_tokens\":40,\"output_tokens\":1}}}\n\n" +
	"event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":10}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

const chatStream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"finish_reason\":null}],\"usage\":null}\n\n" +
	"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":null}\n\n" +
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10,\"total_tokens\":110,\"prompt_tokens_details\":{\"cached_tokens\":40}}}\n\ndata: [DONE]\n\n"

const geminiStream = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{}}}]},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":100,\"cachedContentTokenCount\":40}}\n\n" +
	"data: {\"candidates\":[{\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":100,\"cachedContentTokenCount\":40,\"candidatesTokenCount\":7,\"thoughtsTokenCount\":3,\"totalTokenCount\":110}}\n\n"

const pathGeminiStream = "/v1beta/models/model-1:streamGenerateContent?alt=sse"

// spoken is what an agent and a provider say in a dialect, and how a piece of a text
// comes.
type spoken struct {
	path, body, stream, piece string
	// told is an answer that is one JSON text.
	told string
}

// apis are the dialects. An answer uses 100 tokens, 40 of them from a cache, and 10 of
// output.
var apis = map[API]spoken{
	Responses: {pathResponses, codexBody, codexStream, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":%q}\n\n",
		`{"output":[{"type":"function_call"}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},"output_tokens":10}}`},
	Messages: {pathMessages, claudeBody, claudeStream, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n",
		`{"content":[{"type":"tool_use"}],"usage":{"input_tokens":60,"cache_read_input_tokens":40,"output_tokens":10}}`},
	Chat: {pathChat, chatBody, chatStream, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}],\"usage\":null}\n\n",
		`{"choices":[{"index":0,"message":{"tool_calls":[{"function":{"name":"f"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens":10}}`},
	Gemini: {pathGeminiStream, geminiBody, geminiStream, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":%q}]},\"index\":0}]}\n\n",
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":10}}`},
}

// agent is an attempt whose agent the test plays.
type agent struct {
	*Attempt
	t       *testing.T
	address string
	mu      sync.Mutex
	ledger  []ledger.Entry
	freezes int // holds that are open
	frozen  int // holds in all
}

// options prepares an attempt whose decisions and holds are noted.
func start(t *testing.T, r *Relay) *agent {
	g := &agent{t: t}
	g.Attempt = r.Open(Options{Token: token, Hold: func(context.Context) (func(), error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.freezes++
		g.frozen++
		return func() { g.mu.Lock(); g.freezes--; g.mu.Unlock() }, nil
	}})
	g.record = func(e ledger.Entry) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ledger = append(g.ledger, e)
	}
	return g
}

// open returns how many holds are.
func (g *agent) open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.freezes
}

// listen serves the attempt on loopback until the test ends.
func (g *agent) listen() *agent {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(g.t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, ln) }()
	g.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			g.t.Error(err)
		}
	})
	g.address = ln.Addr().String()
	return g
}

// provider serves as the model's provider.
func provider(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func config(api API, base string) Config {
	return Config{API: api, BaseURL: base, Keys: access.Keys{Key: key}, Model: model}
}

func newRelay(t *testing.T, cfg Config) *Relay {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (g *agent) post(path, body string) (int, string) {
	req, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+g.address+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return response.StatusCode, string(text) + " CUT"
	}
	return response.StatusCode, string(text)
}

// raw sends bytes on a connection and returns all that comes back.
func raw(t *testing.T, address, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute)) // only so that a fault does not hang the test
	go io.WriteString(c, text)
	method, _, _ := strings.Cut(text, " ")
	response, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %v %s", response.StatusCode, response.Header, body)
}

func request1(line, headers, body string) string {
	return line + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n" + headers +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// TestEndpoints is rows N15 to N18 and N22 of the attacks: each request reaches
// the provider through the weak set-up, a reverse proxy that adds the key.
func TestEndpoints(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	base := provider(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.RequestURI)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, codexStream+claudeStream+chatStream+geminiStream)
	})
	weak := httptest.NewServer(weakProxy(base))
	defer weak.Close()
	reached := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := len(seen)
		seen = nil
		return n
	}
	both := []string{
		"GET /v1/files", "POST /v1/files", "POST /v1/batches", "POST /v1/fine_tuning/jobs", "POST /v1/assistants",
		"POST /v1/messages/batches", "GET /v1/organization/usage", "GET /v1/responses/resp_1", "POST /v1/responses/compact",
		"DELETE /v1/models", "HEAD /v1/models", "GET /v1/models/x", "OPTIONS /v1/models", "TRACE /v1/models", "PUT /v1/messages",
		"POST //v1/messages", "POST /v1/messages/", "POST /v1/../v1/messages/", "POST /v1/%6dessages", "POST /V1/messages",
		"POST http://evil.example/v1/messages", "POST /v1/messages;x", "POST /v1/completions", "POST /v1/embeddings", "GET /v1/chat/completions", "POST /chat/completions",
		"POST /v1/chat/completions/", "GET /v1/chat/completions/chatcmpl-1", "POST /openai/deployments/x/chat/completions",
		"POST /v1beta/files", "POST /upload/v1beta/files", "POST /v1beta/cachedContents", "GET /v1beta/cachedContents", "POST /v1beta/models/model-1:batchGenerateContent", "POST /v1beta/models/model-1:embedContent",
		"POST /v1beta/models/model-1:predict", "POST /v1beta/models/model-1:predictLongRunning", "POST /v1beta/tunedModels/model-1:generateContent", "POST /v1beta/models/model-1", "POST /v1beta/models",
		"POST /v1beta/modelsmodel-1:generateContent", "POST /v1beta/models/:generateContent", "POST /v2/models/model-1:generateContent", "POST /v1beta/models/model-1:generatecontent",
		"DELETE /v1beta/models/model-1", "GET /", "GET /debug/pprof/",
	}
	for api, c := range apis {
		own, body, query := c.path, c.body, "?stream=true"
		if api == Messages {
			query = "?beta=false"
		}
		if api == Gemini {
			query = "&alt=sse"
		}
		lines := slices.Clone(both)
		for other, c := range apis {
			if other != api {
				lines = append(lines, "POST "+c.path)
			}
		}
		g := start(t, newRelay(t, config(api, base))).listen()
		for _, line := range lines {
			if raw(t, weak.Listener.Addr().String(), request1(line, "", "{}")); reached() == 0 && !strings.HasPrefix(line, "POST http:") {
				t.Errorf("%s does not even pass the weak set-up", line)
			}
			if got := raw(t, g.address, request1(line, "", "{}")); !strings.HasPrefix(got, "403 ") || reached() != 0 {
				t.Errorf("%s, %s: %s", api, line, got)
			}
		}
		for name, text := range map[string]string{
			"query":          request1("POST "+own+query, "", body),
			"two queries":    request1("POST "+own+cmp.Or(map[API]string{Gemini: "&key=attacker&key=" + token}[api], "?beta=true&beta=true"), "", body),
			"websocket":      request1("GET "+own, "Connection: Upgrade\r\nUpgrade: websocket\r\n", ""),
			"h2c":            request1("POST "+own, "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n", body),
			"CONNECT":        request1("CONNECT api.example:443", "", ""),
			"preface":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			"own key":        request1("POST "+own, "X-Api-Key: attacker\r\n", body),
			"second key":     request1("POST "+own, "Authorization: Bearer attacker\r\n", body),
			"no token":       strings.Replace(request1("POST "+own, "", body), token, "x", 1),
			"line in header": request1("POST "+own, "X-A: b\rX-Api-Key: c\r\n", body),
			"two lengths":    request1("POST "+own, "Content-Length: 3\r\n", body),
			"both lengths":   request1("POST "+own, "Transfer-Encoding: chunked\r\n", body+"\r\n"),
			"encoding":       request1("POST "+own, "Content-Encoding: zstd\r\n", body),
			"large headers":  request1("POST "+own, "X-A: "+strings.Repeat("a", 1<<20)+"\r\n", body),
		} {
			if got := raw(t, g.address, text); !strings.HasPrefix(got, "4") || reached() != 0 {
				t.Errorf("%s, %s: %s", api, name, got)
			}
		}
		for name, text := range map[string]string{
			"honest": request1("POST "+own, "", body),
			"key":    strings.Replace(request1("POST "+own, "", body), "Authorization: Bearer", "X-Api-Key:", 1),
		} {
			if got := raw(t, g.address, text); !strings.HasPrefix(got, "200 ") || reached() != 1 {
				t.Errorf("%s, %s: %s", api, name, got)
			}
		}
	}
}

// weakProxy adds the key to whatever comes.
func weakProxy(base string) http.Handler {
	to, _ := url.Parse(base)
	return &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.Header.Set("Authorization", "Bearer "+key)
		p.Out.Header.Set("X-Api-Key", key)
	}}
}

func TestHonestExchange(t *testing.T) {
	for _, c := range []struct {
		api          API
		path, body   string
		stream       string
		sent         http.Header
		arrives, not []string
	}{
		{Responses, "/v1/responses", codexBody, codexStream,
			http.Header{"Originator": {"codex_exec"}, "Session-Id": {"s"}, "X-Codex-Turn-Metadata": {`{"a":1}`}, "X-Openai-Subagent": {"collab_spawn"},
				"Openai-Organization": {"org"}, "Openai-Project": {"p"}, "Cookie": {"c"}, "X-Forwarded-For": {"1.2.3.4"}},
			[]string{"Originator", "Session-Id", "X-Codex-Turn-Metadata", "X-Openai-Subagent"},
			[]string{"Openai-Organization", "Openai-Project", "Cookie", "X-Forwarded-For", "X-Api-Key"}},
		{Messages, "/v1/messages?beta=true", claudeBody, claudeStream,
			http.Header{"X-App": {"cli"}, "Anthropic-Beta": {"claude-code-20250219,effort-2025-11-24,code-execution-2025-08-25, mcp-client-2025-11-20,files-api-2025-04-14"},
				"X-Stainless-Os": {"Linux"}, "Anthropic-Dangerous-Direct-Browser-Access": {"true"}},
			[]string{"X-App", "X-Stainless-Os"}, []string{"Authorization", "Anthropic-Dangerous-Direct-Browser-Access"}},
		{Chat, pathChat, chatBody, chatStream,
			http.Header{"X-Stainless-Os": {"Linux"}, "User-Agent": {"OpenAI/Python"}, "Openai-Organization": {"org"}, "Cookie": {"c"}, "X-Openrouter-Key": {"k"}},
			[]string{"X-Stainless-Os", "User-Agent"}, []string{"Openai-Organization", "Cookie", "X-Openrouter-Key", "X-Api-Key"}},
		{Gemini, pathGeminiStream, geminiBody, geminiStream,
			http.Header{"X-Goog-Api-Client": {"gl-python"}, "User-Agent": {"google-genai-sdk"}, "X-Goog-User-Project": {"p"}, "X-Goog-Request-Params": {"x"}, "X-Server-Timeout": {"9"}},
			[]string{"X-Goog-Api-Client", "User-Agent"}, []string{"Authorization", "X-Goog-User-Project", "X-Goog-Request-Params", "X-Api-Key"}},
	} {
		var got *http.Request
		var body []byte
		base := provider(t, func(w http.ResponseWriter, r *http.Request) {
			got = r
			body, _ = io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			io.WriteString(w, c.stream)
		})
		cfg := config(c.api, base+map[bool]string{true: "/v1beta/", false: "/v1/"}[c.api == Gemini])
		cfg.Prices = map[string]Price{model: {Input: 10, CachedInput: 1, Output: 100}}
		g := start(t, newRelay(t, cfg)).listen()
		req, _ := http.NewRequest(http.MethodPost, "http://"+g.address+c.path, strings.NewReader(c.body))
		req.Header = c.sent.Clone()
		req.Header.Set("X-Api-Key", token)
		response, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(text) != c.stream || string(body) != c.body || got.RequestURI != c.path {
			t.Errorf("%s: sent %s %s, got %s, %v", c.api, got.RequestURI, body, text, err)
		}
		for _, name := range c.arrives {
			if got.Header.Get(name) != c.sent.Get(name) {
				t.Errorf("%s: %s is %q", c.api, name, got.Header.Get(name))
			}
		}
		for _, name := range c.not {
			if v, ok := got.Header[name]; ok {
				t.Errorf("%s: %s is %q", c.api, name, v)
			}
		}
		if c.api == Messages && (got.Header.Get("Anthropic-Beta") != "claude-code-20250219,effort-2025-11-24" || got.Header.Get("X-Api-Key") != key) {
			t.Errorf("%v", got.Header)
		}
		if c.api == Gemini && got.Header.Get("X-Goog-Api-Key") != key || (c.api == Responses || c.api == Chat) && got.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("%v", got.Header)
		}
		usage := g.Usage()
		if usage["requests"] != 1 || usage["input_tokens"] != 100 || usage["cached_input_tokens"] != 40 || usage["output_tokens"] != 10 ||
			usage["cost_microusd"] != 600+40+1000 || g.Held() != 0 || g.Err() != nil || g.Spent() {
			t.Errorf("%s: %v", c.api, usage)
		}
		g.checkTrace(1)
	}
}

// kept is all that is stored of the agent's exchanges.
func (g *agent) kept() []byte {
	exchanges, steps := g.Trace()
	return append(exchanges, steps...)
}

// checkTrace checks that every line of the trace is an object of its own, and
// one ledger entry beside it, and returns the lines.
func (g *agent) checkTrace(n int) []map[string]any {
	g.t.Helper()
	var out []map[string]any
	exchanges, steps := g.Trace()
	if told, left, err := trajectory.Read(steps); err != nil || left > 0 || len(told) == 0 {
		g.t.Errorf("%d steps, %d left out, %v", len(told), left, err)
	}
	for line := range bytes.Lines(exchanges) {
		var x map[string]any
		if err := json.Unmarshal(line, &x); err != nil {
			g.t.Errorf("the trace has the line %q: %v", line, err)
		}
		if x["method"] == nil {
			g.t.Errorf("the trace leaves something out: %s", line)
		}
		out = append(out, x)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(out) != n || len(g.ledger) != n {
		g.t.Errorf("%d lines in the trace, %d in the ledger, want %d", len(out), len(g.ledger), n)
	}
	return out
}

func TestModels(t *testing.T) {
	cfg := config(Responses, "http://127.0.0.1:1")
	cfg.SmallModel = "model-2"
	g := start(t, newRelay(t, cfg)).listen()
	got := raw(t, g.address, request1("GET /v1/models?client_version=1", "", ""))
	if !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"id":"model-2"`) || !strings.Contains(got, `"models":[]`) {
		t.Error(got)
	}
	if g.Usage()["requests"] != 0 {
		t.Error("the list of models was asked for")
	}
}

// TestGeminiPaths: what Google's own libraries ask for is served, and the token in a query
// goes nowhere. Another model, or a stream in another form than that of events, is not.
func TestGeminiPaths(t *testing.T) {
	var seen []string
	base := provider(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.RequestURI+" "+r.Header.Get("X-Goog-Api-Key"))
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "stream") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		io.WriteString(w, apis[Gemini].told)
	})
	cfg := config(Gemini, base)
	cfg.SmallModel = "small?1"
	g := start(t, newRelay(t, cfg)).listen()
	for _, c := range []struct {
		line, headers, want string
		reaches             string
	}{
		{"POST /v1/models/model-1:generateContent", "", "200", "/v1beta/models/model-1:generateContent"},
		{"POST /v1beta/models/model%2D1:generateContent?alt=json", "", "200", "/v1beta/models/model-1:generateContent"},
		{"POST /v1beta/models/model-1:countTokens?key=" + token, "", "200", "/v1beta/models/model-1:countTokens"},
		{"POST /v1beta/models/model-1:streamGenerateContent?alt=sse&key=" + token, "X-Goog-Api-Key: " + token + "\r\n", "200", "/v1beta/models/model-1:streamGenerateContent?alt=sse"},
		{"POST /v1beta/models/small%3F1:generateContent", "", "200", "/v1beta/models/small%3F1:generateContent"},
		{"GET /v1beta/models?pageSize=1000", "", `200 map[Content-Length:[238] Content-Type:[application/json]`, ""},
		{"GET /v1/models/model-1", "", "200", ""},
		{"GET /v1beta/models/bigger", "", "403", ""},
		{"POST /v1beta/models/bigger:generateContent", "", "403", ""},
		{"POST /v1beta/models/model-1%2F..%2Fbigger:generateContent", "", "403", ""},
		{"POST /v1beta/models/bigger:countTokens", "", "403", ""},
		{"POST /v1beta/models/model-1:streamGenerateContent", "", "403", ""},
		{"POST /v1beta/models/model-1:streamGenerateContent?alt=json", "", "403", ""},
		{"POST /v1beta/models/model-1:streamGenerateContent?alt=sse&alt=json", "", "403", ""},
		{"POST /v1beta/models/model-1:generateContent?alt=sse", "", "403", ""},
		{"POST /v1beta/models/model-1:generateContent?upload_protocol=x", "", "403", ""},
		{"POST /v1beta/models/model-1:generateContent?%6Bey=attacker", "", "403", ""},
		{"GET /v1beta/models?key=attacker", "", "403", ""},
		{"POST /v1beta/models/model-1:generateContent", "X-Goog-Api-Key: attacker\r\n", "403", ""},
	} {
		seen = nil
		got := raw(t, g.address, request1(c.line, c.headers+"Connection: close\r\n", geminiBody))
		want := []string{c.reaches + " " + key}
		if c.reaches == "" {
			want = nil
		}
		if !strings.HasPrefix(got, c.want) || !slices.Equal(seen, want) {
			t.Errorf("%s: %s; the provider sees %q", c.line, got, seen)
		}
	}
	if text := string(g.kept()) + fmt.Sprint(g.ledger); strings.Contains(text, token) || strings.Contains(text, "attacker") {
		t.Errorf("a credential is stored: %s", text)
	}
}

// TestLogForging is row N22.
func TestLogForging(t *testing.T) {
	g := start(t, newRelay(t, config(Responses, "http://127.0.0.1:1"))).listen()
	raw(t, g.address, request1("GET /v1/x\\n{\"status\":200}%0a\xff"+strings.Repeat("a", 5000), "", ""))
	x := g.checkTrace(1)[0]
	if path := x["path"].(string); !strings.HasPrefix(path, `/v1/x\n{"status":200}%0a`) || len(path) > 300 || x["status"] != 403.0 {
		t.Errorf("%v", x)
	}
}

func TestRefusalsStopAgents(t *testing.T) {
	for api, want := range map[API]string{
		Responses: `400 {"error":{"message":"securebench: a tool of the type \"web_search\" is not allowed here","type":"invalid_request_error","param":null,"code":"external_tools_blocked"}}`,
		Chat:      `403 {"error":{"message":"securebench: a tool of the type \"web_search\" is not allowed here","type":"invalid_request_error","param":null,"code":"external_tools_blocked"}}`,
		Gemini:    `403 {"error":{"code":403,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"securebench","reason":"external_tools_blocked"}],"message":"securebench: the tool \"googlesearch\" is not allowed here","status":"PERMISSION_DENIED"}}`,
		Messages:  `403 {"error":{"message":"securebench: a tool of the type \"web_search\" is not allowed here (external_tools_blocked)","type":"permission_error"},"type":"error"}`,
	} {
		g := start(t, newRelay(t, config(api, "http://127.0.0.1:1"))).listen()
		hosted := `{"model":"model-1","tools":[{"type":"web_search"}]}`
		if api == Gemini {
			hosted = `{"tools":[{"googleSearch":{}}]}`
		}
		status, body := g.post(apis[api].path, hosted)
		if got := fmt.Sprint(status, " ", body); got != want {
			t.Errorf("%s", got)
		}
		if g.ledger[0].Allowed || g.ledger[0].Reason != "external_tools_blocked" {
			t.Errorf("%+v", g.ledger)
		}
	}
}

func TestConfig(t *testing.T) {
	good := config(Responses, "https://api.example/openai/v1/")
	if r := newRelay(t, good); r.endpoints[Responses].URL(pathResponses, "") != "https://api.example/openai/v1/responses" || strings.Contains(fmt.Sprintf("%v %+v %#v %+v", r, r, r, good), key) {
		t.Errorf("asks at %s, or the key is printed", r.endpoints[Responses].URL(pathResponses, ""))
	}
	for _, base := range []string{"http://127.0.0.1:1", "http://localhost:1/v1", "http://[::1]:2"} {
		newRelay(t, config(Messages, base))
	}
	for name, change := range map[string]func(*Config){
		"api":           func(c *Config) { c.API = "chat" },
		"second api":    func(c *Config) { c.Also = []API{"chat"} },
		"plain http":    func(c *Config) { c.BaseURL = "http://api.example" },
		"like loopback": func(c *Config) { c.BaseURL = "http://127.0.0.1.example" },
		"user":          func(c *Config) { c.BaseURL = "https://u:p@api.example" },
		"key in query":  func(c *Config) { c.BaseURL = "https://api.example/?key=b" },
		"nothing":       func(c *Config) { c.BaseURL = "" },
		"model":         func(c *Config) { c.Model = "" },
		"broken key":    func(c *Config) { c.Keys = access.Keys{Key: key + "\n"} },
		"budget":        func(c *Config) { c.Budget.Tokens = -1 },
		"no price":      func(c *Config) { c.Budget.Cost = 1 },
		"price":         func(c *Config) { c.Prices = map[string]Price{model: {Input: -1}} },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyHonestRequests: 200 at a time and a body of 10 MB are ordinary.
func TestManyHonestRequests(t *testing.T) {
	base := provider(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, claudeStream)
	})
	g := start(t, newRelay(t, config(Messages, base))).listen()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if status, body := g.post(pathMessages, claudeBody); status != 200 || body != claudeStream {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	wg.Wait()
	long := strings.Replace(claudeBody, `"hi"`, `"`+strings.Repeat("long ", 2<<20)+`"`, 1)
	g.room.free = 12 << 20 // so that one has to wait for the other
	for range 2 {
		wg.Go(func() {
			if status, body := g.post(pathMessages, long); status != 200 || body != claudeStream {
				t.Errorf("%d %.200s", status, body)
			}
		})
	}
	wg.Wait()
	if u := g.Usage(); u["requests"] != 202 || u["output_tokens"] != 2020 {
		t.Errorf("%v", u)
	}
	if trace := g.kept(); len(trace) > 1<<20 {
		t.Errorf("the trace has %d bytes", len(trace))
	}
}

// TestServeEnds: nothing of an attempt continues after it.
func TestServeEnds(t *testing.T) {
	reached := make(chan struct{})
	base := provider(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(reached)
		<-r.Context().Done()
	})
	g := start(t, newRelay(t, config(Responses, base)))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- g.Serve(ctx, ln) }()
	g.address = ln.Addr().String()
	go g.post(pathResponses, codexBody)
	<-reached
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	x := g.checkTrace(1)[0]
	if x["reason"] != string(agentLeft) || g.Usage()["input_tokens"] == 0 || g.Err() != nil {
		t.Errorf("%v, %v", x, g.Usage())
	}
}

// TestAbandoned: an answer that an agent does not wait for is not free.
func TestAbandoned(t *testing.T) {
	for name, tt := range map[string]struct {
		api              API
		body, kind, says string
		want             int64
	}{
		"before it begins": {Chat, `{"model":"model-1","n":3,"max_tokens":50,"messages":[]}`, "", "", 150},
		"without a bound":  {Chat, `{"model":"model-1","messages":[]}`, "", "", reserveOutput},
		"of a huge bound":  {Responses, `{"model":"model-1","max_output_tokens":900000,"input":"x"}`, "", "", reserveOutput},
		"of a stream":      {Messages, claudeBody, "text/event-stream", ": hm\n\n", 100},
		"that has begun":   {Gemini, geminiBody, "text/event-stream", fmt.Sprintf(apis[Gemini].piece, "some words"), 6},
		"of blanks so far": {Responses, `{"model":"model-1","max_output_tokens":70,"input":"x"}`, "application/json", "  ", 70},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			r := newRelay(t, config(tt.api, "http://127.0.0.1:1"))
			r.transport = roundTrip(func(*http.Request) (*http.Response, error) {
				if tt.says == "" {
					leave()
					return nil, ctx.Err()
				}
				response := respond(200, "Content-Type: "+tt.kind, "")
				response.Body = io.NopCloser(io.MultiReader(strings.NewReader(tt.says), left(leave)))
				return response, nil
			})
			g := start(t, r)
			g.call(ctx, tt.body)
			if u := g.Usage(); u["output_tokens"] != tt.want || u["input_tokens"] == 0 {
				t.Errorf("%v, want an output of %d", u, tt.want)
			}
		})
	}
}

// TestLeavingIsSeenFirst: a response that ends because the agent has left is not one that
// the provider broke off, in whichever order the end of a request reaches what hangs on it.
func TestLeavingIsSeenFirst(t *testing.T) {
	for range 20 {
		ctx, leave := context.WithCancel(t.Context())
		r := newRelay(t, config(Messages, "http://127.0.0.1:1"))
		r.transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			from, to := io.Pipe()
			for range 2000 { // to be told before or after the response
				_, stop := context.WithCancel(req.Context())
				t.Cleanup(stop)
			}
			context.AfterFunc(req.Context(), func() { _ = to.CloseWithError(context.Canceled) })
			go func() { _, _ = io.WriteString(to, ": hm\n\n"); leave() }()
			response := respond(200, eventStream, "")
			response.Body = from
			return response, nil
		})
		g := start(t, r)
		g.call(ctx, claudeBody)
		if got := g.reasons(); !slices.Equal(got, []string{string(agentLeft)}) {
			t.Fatalf("%v", got)
		}
	}
}

// left is what comes after the agent has left.
type left func()

// Read has the agent leave.
func (l left) Read([]byte) (int, error) {
	l()
	return 0, context.Canceled
}

// roundTrip is a transport.
type roundTrip func(r *http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply makes a response.
func respond(status int, header, body string) *http.Response {
	h := http.Header{}
	for line := range strings.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		h.Add(name, value)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

const eventStream = "Content-Type: text/event-stream"

// call serves a request without a connection.
func (g *agent) call(ctx context.Context, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, apis[g.relay.cfg.API].path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	func() {
		defer func() {
			p := recover()
			if err, ok := p.(error); p != nil && (!ok || !errors.Is(err, http.ErrAbortHandler)) {
				panic(p)
			}
		}()
		g.serve(w, r)
	}()
	return w
}

func (g *agent) reasons() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for _, e := range g.ledger {
		out = append(out, e.Reason)
	}
	return slices.Compact(out)
}

// TestOperatorsAddress: an agent's request goes to the operator's path with the operator's
// query, headers and key, whatever the agent sends. What of it the provider repeats, the
// agent does not see.
func TestOperatorsAddress(t *testing.T) {
	const secret = "az-canary-0123456789abcdef"
	at := access.Address{API: string(Messages), KeyEnv: "K", Headers: []access.Header{{Name: "api-key", Text: "${AZURE}"},
		{Name: "User-Agent", Text: "bench"}, {Name: "X-App", Text: "operator"}, {Name: "anthropic-version", Text: "2030-01-01"}}}
	keys, err := at.Read(func(name string) string { return map[string]string{"K": key, "AZURE": secret}[name] })
	if err != nil {
		t.Fatal(err)
	}
	var got *http.Request
	base := provider(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"content":[],"usage":{"input_tokens":1,"output_tokens":1},"said":%q}`, r.Header.Get("Api-Key"))
	})
	cfg := config(Messages, base+"/gateway/anthropic?api-version=2024-10-21&beta=false")
	cfg.Keys = keys
	g := start(t, newRelay(t, cfg)).listen()
	request := "POST /v1/messages?beta=true HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + token +
		"\r\nApi-Key: attacker\r\nUser-Agent: attacker\r\nX-App: attacker\r\nAnthropic-Version: attacker\r\n"
	body := strings.Replace(claudeBody, `"stream":true,`, "", 1)
	answer := raw(t, g.address, request+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
	if !strings.HasPrefix(answer, "200 ") || strings.Contains(answer, secret) || !strings.Contains(answer, "[redacted:provider_key]") {
		t.Errorf("the agent got %s", answer)
	}
	if got.RequestURI != "/gateway/anthropic/v1/messages?api-version=2024-10-21&beta=false" {
		t.Errorf("asked for %s", got.RequestURI)
	}
	for name, want := range map[string]string{"Api-Key": secret, "X-Api-Key": key, "User-Agent": "bench", "X-App": "operator", "Anthropic-Version": "2030-01-01", "Authorization": ""} {
		if h := got.Header.Values(name); strings.Join(h, ", ") != want {
			t.Errorf("%s: %q, want %s", name, h, want)
		}
	}
}

// TestWithoutKey: a provider that wants no key gets none, and not the agent's token.
func TestWithoutKey(t *testing.T) {
	var got http.Header
	base := provider(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"input_tokens":1,"output_tokens":1}}`)
	})
	cfg := config(Responses, base)
	cfg.Keys = access.Keys{}
	g := start(t, newRelay(t, cfg)).listen()
	if status, body := g.post("/v1/responses", `{"model":"model-1","store":false,"input":"hi"}`); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if got == nil || got.Get("Authorization") != "" || got.Get("X-Api-Key") != "" {
		t.Errorf("%v", got)
	}
}

// TestErrorWords: what a provider says in another form than the API's reaches the agent and
// the operator in one line, and no part of the key does.
func TestErrorWords(t *testing.T) {
	end := key[len(key)-4:]
	for body, want := range map[string]string{
		"<html><title>413 Request Entity Too Large</title></html>": `status 413: "413 Request Entity Too Large"`,
		"upstream timed out":        `status 413: "upstream timed out"`,
		"no such key: sk-***" + end: "status 413",
		"":                          "status 413",
	} {
		base := provider(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, body)
		})
		g := start(t, newRelay(t, config(Responses, base))).listen()
		status, got := g.post("/v1/responses", codexBody)
		if plain := strings.ReplaceAll(got, `\"`, `"`); status != http.StatusBadRequest || !strings.Contains(plain, want) || strings.Contains(got, end) {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
	base := provider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"detail":"Not Found"}`)
	})
	g := start(t, newRelay(t, config(Responses, base))).listen()
	g.post("/v1/responses", codexBody)
	if err := g.Err(); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), `"Not Found"`) {
		t.Error(err)
	}
}
