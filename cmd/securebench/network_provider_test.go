package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/awaittest"
)

// meetings are places where two agents wait for one another.
type meetings struct {
	mu sync.Mutex
	at map[string]chan struct{}
}

// meet waits until two have come to a place.
func (m *meetings) meet(where string) string {
	m.mu.Lock()
	other := m.at[where]
	if other != nil {
		delete(m.at, where)
		close(other)
		m.mu.Unlock()
		return "met"
	}
	arrived := make(chan struct{})
	if m.at == nil {
		m.at = map[string]chan struct{}{}
	}
	m.at[where] = arrived
	m.mu.Unlock()
	select {
	case <-arrived:
		return "met"
	case <-time.After(awaittest.Hung): // so that a fault does not hang the run
		return "alone"
	}
}

// modelProvider answers in the form of an API. It says what it should not have been asked.
type modelProvider struct {
	api string // of the corpus

	meetings meetings
	mu       sync.Mutex
	reached  []string // what nothing should have reached
	told     string
	counts   map[string]int // of requests, by their texts
}

// asking is what the provider reads of a request, as laxly as some do: of names in
// capitals, and of those that come twice the last.
type asking struct {
	Model                    string
	Servers                  json.RawMessage `json:"mcp_servers"`
	Container, N, Background any
	Tier                     string `json:"service_tier"`
	Previous                 string `json:"previous_response_id"`
	Store                    bool
	Search                   any `json:"web_search_options"`
	// of Gemini's
	Generation struct{ CandidateCount any } `json:"generationConfig"`
}

// endpoints are those of a model, and hosted what no agent may have the provider do.
var (
	endpoints = map[string]*regexp.Regexp{
		"codex":       regexp.MustCompile(`^POST /v1/responses$`),
		"claude_code": regexp.MustCompile(`^POST /v1/messages(/count_tokens)?(\?beta=true)?$`),
		"openai_chat": regexp.MustCompile(`^POST /v1/chat/completions$`),
		"gemini":      regexp.MustCompile(`^POST /v1beta/models/gemini-1:(streamGenerateContent\?alt=sse|generateContent)$`),
	}
	hosted = regexp.MustCompile(`"type": ?"(web_|code_|file_search|image_generation|computer_use|mcp)|"(image_|file_)?url": ?"http|"file_id"` +
		`|"(google_?[sS]earch|code_?[eE]xecution|url_?[cC]ontext|file_?[dD]ata|cached_?[cC]ontent)`)
	spoken = regexp.MustCompile(`"text": ?"([^"]*)"`)
)

// wrongIn says what is wrong with a request.
func (p *modelProvider) wrongIn(r *http.Request, body []byte) string {
	var a asking
	var size int
	for name, values := range r.Header {
		size += len(name) + len(strings.Join(values, ""))
	}
	err := json.Unmarshal(body, &a)
	models := []string{"gpt-1", "claude-one-1", "chat-1"}
	if p.api == "gemini" { // whose path has it
		models = []string{""}
	}
	for what, wrong := range map[string]bool{
		"endpoint " + r.Method + " " + r.RequestURI: !endpoints[p.api].MatchString(r.Method + " " + r.RequestURI),
		"another's key":         strings.Contains(fmt.Sprint(r.Header), "attacker"),
		"no key":                !strings.Contains(fmt.Sprint(r.Header), secret),
		"an upgrade":            r.Header.Get("Upgrade") != "",
		"an injected field":     r.Header.Get("Injected") != "",
		"long fields":           size > 64<<10,
		"a long body":           len(body) > 32<<20,
		"a packed body":         r.Header.Get("Content-Encoding") != "",
		"the model " + a.Model:  err == nil && !slices.Contains(models, a.Model),
		"something hosted":      hosted.Match(body) || a.Servers != nil || a.Container != nil || a.Background != nil || a.Previous != "" || a.Store || a.Search != nil,
		"something costly":      a.N != nil || a.Generation.CandidateCount != nil || a.Tier != "" && a.Tier != "auto" && a.Tier != "default",
		"a body without a text": err != nil,
	} {
		if wrong {
			return what
		}
	}
	return ""
}

// ServeHTTP answers a request.
func (p *modelProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 40<<20))
	if err != nil {
		return
	}
	if wrong := p.wrongIn(r, body); wrong != "" {
		p.mu.Lock()
		p.reached = append(p.reached, wrong)
		p.mu.Unlock()
		p.says(w, r, pwned+": "+wrong)
		return
	}
	texts := spoken.FindAllSubmatch(body, -1)
	verb, what := "", ""
	if len(texts) > 0 {
		verb, what, _ = strings.Cut(string(texts[len(texts)-1][1]), " ")
	}
	p.mu.Lock()
	p.counts[verb]++
	p.counts[verb+" "+what]++
	answer := "hello from the model"
	switch verb {
	case "tell":
		p.told, answer = what, "told"
	case "hear":
		answer = "token " + p.told + " is another's"
	}
	p.mu.Unlock()
	switch verb {
	case "meet":
		answer = p.meetings.meet(what)
	case "echo":
		p.echo(w, r, what)
		return
	}
	p.says(w, r, answer)
}

// echo says the key that came with the request.
func (p *modelProvider) echo(w http.ResponseWriter, r *http.Request, how string) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key")
	switch how {
	case "plain":
		p.says(w, r, "the key "+key)
	case "encoded":
		b := []byte(key)
		p.says(w, r, base64.StdEncoding.EncodeToString(b), hex.EncodeToString(b), base64.URLEncoding.EncodeToString(append([]byte("k"), b...)))
	case "spread":
		p.says(w, r, strings.Split(key, "")...)
	case "split": // by the edges of chunks
		p.says(onebyone{w}, r, "the key "+key)
	case "field":
		w.Header().Set("X-Request-Key", key)
		w.Header().Set("Location", "http://evil.example/"+key)
		p.says(w, r, "in a field")
	case "error", "rejection":
		w.WriteHeader(map[string]int{"error": http.StatusBadRequest, "rejection": http.StatusUnauthorized}[how])
		fmt.Fprintf(w, `{"type": "error", "error": {"type": "invalid_request_error", "message": "the key %s may not do that", "code": "no"}}`, key)
	}
}

// onebyone writes each byte as a chunk.
type onebyone struct{ http.ResponseWriter }

// Write writes and flushes bytes one after another.
func (w onebyone) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := w.ResponseWriter.Write(p[i : i+1]); err != nil {
			return i, err
		}
		w.ResponseWriter.(http.Flusher).Flush()
	}
	return len(p), nil
}

// says answers with a stream of pieces.
func (p *modelProvider) says(w http.ResponseWriter, r *http.Request, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(kind string, data map[string]any) {
		if kind != "" {
			data["type"] = kind
			fmt.Fprintf(w, "event: %s\n", kind)
		}
		b, _ := json.Marshal(data)
		fmt.Fprintf(w, "data: %s\n\n", b)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	usage := map[string]any{"input_tokens": 10, "output_tokens": 1}
	switch p.api {
	case "openai_chat":
		for _, text := range pieces {
			event("", map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": text}}}})
		}
		event("", map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": "stop"}},
			"usage": map[string]any{"prompt_tokens": 10, "completion_tokens": 1}})
		return
	case "gemini":
		for _, text := range pieces {
			event("", map[string]any{"candidates": []any{map[string]any{"content": map[string]any{"parts": []any{map[string]any{"text": text}}}}}})
		}
		event("", map[string]any{"candidates": []any{map[string]any{"finishReason": "STOP"}}, "usageMetadata": map[string]any{"promptTokenCount": 10, "candidatesTokenCount": 1}})
		return
	case "claude_code":
		event("message_start", map[string]any{"message": map[string]any{"usage": usage}})
		for _, text := range pieces {
			event("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": text}})
		}
		event("message_delta", map[string]any{"usage": usage})
		event("message_stop", map[string]any{})
		return
	}
	for _, text := range pieces {
		event("response.output_text.delta", map[string]any{"delta": text})
	}
	event("response.completed", map[string]any{"response": map[string]any{"usage": usage}})
}

// carelessRelay passes everything on, adds the key where there is none, and logs
// what it is told.
func carelessRelay(t *testing.T, provider string, lines io.Writer) string {
	t.Helper()
	to, err := url.Parse(provider)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	s := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(p *httputil.ProxyRequest) {
		mu.Lock()
		fmt.Fprintf(lines, "{\"gate\":\"relay\",\"method\":%q,\"target\":\"%s\"}\n", p.In.Method, strings.NewReplacer(`\n`, "\n", "\u2028", "\n", `"}`, "\"}\n").Replace(p.In.URL.Path))
		mu.Unlock()
		p.SetURL(to)
		if up := p.In.Header.Get("Upgrade"); up != "" {
			p.Out.Header.Set("Upgrade", up)
		}
		if !strings.Contains(fmt.Sprint(p.In.Header), "attacker") {
			p.Out.Header.Set("Authorization", "Bearer "+secret)
		}
	}})
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// agentProgram stands in for the programs of agents: it runs the script of its
// task, and says what that printed.
const agentProgram = `#!/usr/bin/env python3
import json, subprocess, sys
if "--version" in sys.argv:
    print("program 0.0.1")
    sys.exit()
script = json.load(open("task.json"))["context"]
said = subprocess.run(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode(errors="replace")
if sys.argv[1] == "exec":
    print(json.dumps({"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": said}}))
else:
    print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": said}))
`

// packed is a package with a program at a path.
func packed(t *testing.T, path string) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/" + path, Mode: 0o755, Size: int64(len(agentProgram))}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, agentProgram)
	if w.Close() != nil || zipped.Close() != nil {
		t.Fatal("packing failed")
	}
	return b.Bytes()
}

// fakePrograms serves the packages of the agents' programs as a registry does, and
// returns its address.
func fakePrograms(t *testing.T) string {
	t.Helper()
	claude := packed(t, "claude")
	packages := map[string]map[string][]byte{
		"@openai/codex": {"0.0.1": claude, "0.0.1-linux-x64": packed(t, "vendor/x86_64-unknown-linux-musl/bin/codex"),
			"0.0.1-linux-arm64": packed(t, "vendor/aarch64-unknown-linux-musl/bin/codex")},
		"@anthropic-ai/claude-code": {"0.0.1": claude}, "@anthropic-ai/claude-code-linux-x64": {"0.0.1": claude}, "@anthropic-ai/claude-code-linux-arm64": {"0.0.1": claude},
	}
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _ := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/"))
		if name, version, isFile := strings.Cut(name, "/-/"); isFile {
			_, _ = w.Write(packages[name][version])
			return
		}
		versions := map[string]any{}
		for v, data := range packages[name] {
			sum := sha512.Sum512(data)
			versions[v] = map[string]any{"dist": map[string]string{"tarball": s.URL + "/" + name + "/-/" + v,
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": "0.0.1"}, "versions": versions})
	}))
	t.Cleanup(s.Close)
	return s.URL
}
