package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/awaittest"
	"securebench/internal/digest"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/scripted"
)

const key = "sk-canary-0123456789"

// apis are the protocols. Everything that is promised holds for all of them.
func apis() []string {
	return []string{access.Responses, access.Chat, access.Messages, access.Gemini}
}

// bench is a client of a provider that plays a script.
type bench struct {
	*model.Client
	server *scripted.Server
	url    string
}

func newBench(t *testing.T, api, script string, change func(*harness.Model)) bench {
	t.Helper()
	s, err := scripted.Parse("script.yaml", []byte("key: "+key+"\nmodels: [m-1]\n"+script))
	if err != nil {
		t.Fatal(err)
	}
	server := scripted.New(s, nil)
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	set := harness.Model{Relay: harness.Relay{Address: access.Address{API: api, BaseURL: h.URL}, Model: "m-1"}, MaxTokens: 64}
	if change != nil {
		change(&set)
	}
	c, err := model.New(model.Config{Settings: set, Keys: access.Keys{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	c.Hurry()
	return bench{c, server, h.URL}
}

func (b bench) question(text string) model.Question {
	return model.Question{Question: harness.Question{System: "Be brief.", User: text}, Task: "t", Attempt: 2}
}

func (b bench) put(t *testing.T, text string) (model.Result, string, error) {
	t.Helper()
	var seen bytes.Buffer
	res, err := b.Ask(t.Context(), b.question(text), awaittest.Hung, &seen)
	return res, seen.String(), err
}

// TestAnswers: each API's answer is the text, with what it used, and nobody but
// the provider gets the key.
func TestAnswers(t *testing.T) {
	for _, api := range apis() {
		t.Run(api, func(t *testing.T) {
			b := newBench(t, api, `turns: [{say: "Nine.\nAnswer: 9", usage: {input: 100, cached: 40, output: 20, reasoning: 5}}]`, func(m *harness.Model) {
				half := 0.5
				seed := int64(7)
				m.Temperature, m.Seed, m.Effort = &half, &seed, "low"
				m.Prices = map[string]harness.Price{"m-1": {Input: 1, CachedInput: 0.5, CacheWrite: 1, Output: 10}}
			})
			if err := b.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			res, seen, err := b.put(t, "How many?")
			if err != nil || res.End != model.Answered || res.Text != "Nine.\nAnswer: 9" || seen != res.Text || res.Model != "m-1" || res.Stop == "" {
				t.Fatalf("%+v, shown %q: %v", res, seen, err)
			}
			input := int64(100)
			if api == access.Messages { // whose input excludes the cache
				input = 140
			}
			cost := (input - 40) + 20 + 200
			n := b.Counts(res)
			for name, want := range map[string]int64{"requests": 1, "input_tokens": input, "cached_input_tokens": 40, "output_tokens": 20,
				"reasoning_tokens": 5, "cost_microusd": cost} {
				if n[name] != want {
					t.Errorf("%s is %d, want %d", name, n[name], want)
				}
			}
			if _, ok := n["latency_ms"]; !ok || res.First <= 0 || res.First > res.Latency {
				t.Errorf("%v: first text after %v of %v", n, res.First, res.Latency)
			}
			checkRequest(t, api, b.server.Requests())
		})
	}
}

// checkRequest checks what the provider was asked last.
func checkRequest(t *testing.T, api string, all []scripted.Request) {
	t.Helper()
	last := all[len(all)-1]
	var body map[string]any
	if err := json.Unmarshal(last.Body, &body); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"model": "m-1", "stream": true, "temperature": 0.5}
	switch api {
	case access.Responses:
		want["max_output_tokens"], want["instructions"], want["input"], want["store"] = 64.0, "Be brief.", "How many?", false
	case access.Chat:
		want["max_tokens"], want["seed"], want["reasoning_effort"] = 64.0, 8.0, "low" // the seed of attempt 2
	case access.Messages:
		want["max_tokens"] = 64.0
	case access.Gemini: // whose path has the model, and that it is a stream
		body, _ = body["generationConfig"].(map[string]any)
		want = map[string]any{"maxOutputTokens": 64.0, "seed": 8.0, "temperature": 0.5}
		if thinking := fmt.Sprint(body["thinkingConfig"]); thinking != "map[thinkingLevel:low]" || last.Path != "/v1beta/models/m-1:streamGenerateContent" || last.Query != "alt=sse" {
			t.Errorf("%s?%s with %s", last.Path, last.Query, thinking)
		}
	}
	for name, v := range want {
		if body[name] != v {
			t.Errorf("%s is %v, want %v", name, body[name], v)
		}
	}
	if text := string(last.Body); !strings.Contains(text, "Be brief.") || !strings.Contains(text, "How many?") || strings.Contains(text, key) {
		t.Errorf("the body is %s", text)
	}
	if c := last.Credentials; len(c) != 1 || c[0] != key {
		t.Errorf("credentials: %q", c)
	}
}

// TestEnds: what the provider does with one question is that question's matter,
// and what it does with all of them is the configuration's.
func TestEnds(t *testing.T) {
	tests := map[string]struct {
		script string
		change func(*harness.Model)
		end    model.End
		why    string // of a refusal or an error
		fails  error  // nil with an error is any
		failed bool
	}{
		"declined":          {`turns: [{refusal: "I will not."}]`, nil, model.Refused, "declines", nil, false},
		"refused":           {"conversations: [{match: OK, turns: [{say: OK}]}]\nturns: [{before: [{status: 400, times: -1, message: too odd}]}]", nil, model.Refused, "too odd", nil, false},
		"rejected":          {`turns: [{before: [{status: 400, times: -1, message: "no temperature"}]}]`, nil, 0, "no temperature", relay.ErrRejected, true},
		"unknown model":     {`turns: [{say: x}]`, func(m *harness.Model) { m.Model = "m-2" }, 0, `does not know the model "m-2"`, relay.ErrRejected, true},
		"redirect":          {`turns: [{before: [{redirect: "http://127.0.0.1:1/", times: -1}]}]`, nil, 0, "not followed", relay.ErrRejected, true},
		"always broken":     {`turns: [{before: [{status: 500, times: -1}]}]`, nil, 0, "failed 4 times", nil, true},
		"always cut":        {`turns: [{say: "a long answer", before: [{cut: 3, times: -1}]}]`, nil, 0, "failed 4 times", nil, true},
		"budget":            {`turns: [{before: [{status: 500, times: -1}]}]`, func(m *harness.Model) { m.Requests = 2 }, model.OverBudget, "", nil, false},
		"budget of tokens":  {`turns: [{say: "a long answer", before: [{cut: 5, times: -1}]}]`, func(m *harness.Model) { m.Tokens = 1 }, model.OverBudget, "", nil, false},
		"cut at its length": {`turns: [{say: "half an ans", stop: length}]`, nil, model.Answered, "", nil, false},
	}
	for name, tt := range tests {
		for _, api := range apis() {
			t.Run(name+"/"+api, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, api, tt.script, tt.change)
				res, _, err := b.put(t, "question")
				if (err != nil) != tt.failed || tt.fails != nil && !errors.Is(err, tt.fails) {
					t.Fatalf("%+v: %v", res, err)
				}
				said := res.Why
				if err != nil {
					said = err.Error()
				}
				if !strings.Contains(said, tt.why) || err == nil && res.End != tt.end || strings.Contains(said, "\n") {
					t.Errorf("%q, end %d: want %q, %d", said, res.End, tt.why, tt.end)
				}
				if tt.fails == nil && errors.Is(err, relay.ErrRejected) {
					t.Errorf("the configuration is blamed: %v", err)
				}
			})
		}
	}
}

// TestPatience: a provider that asks to wait is waited for, at no cost of the
// time limit, and one that breaks off is asked again.
func TestPatience(t *testing.T) {
	for _, api := range apis() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, api, `turns: [{say: "the whole answer", before: [{status: 429, headers: {Retry-After-Ms: "1100"}}, {cut: 4}]}]`, nil)
			began := time.Now()
			res, seen, err := b.put(t, "q")
			took := time.Since(began)
			if err != nil || res.Text != "the whole answer" || res.Requests != 3 || !strings.HasSuffix(seen, res.Text) {
				t.Fatalf("%+v, %q: %v", res, seen, err)
			}
			if res.Waited < 1100*time.Millisecond || res.Latency > took-res.Waited || len(res.Tries) != 3 || res.Tries[0].Error == "" || res.Tries[2].Error != "" {
				t.Errorf("waited %v, latency %v, tries %+v", res.Waited, res.Latency, res.Tries)
			}
		})
	}
}

// TestSharedPatience: one question's 429 makes those wait that come after it.
func TestSharedPatience(t *testing.T) {
	b := newBench(t, access.Chat, "conversations: [{match: first, turns: [{say: a, before: [{status: 429, headers: {Retry-After-Ms: \"800\"}}]}]}]\nturns: [{say: b}]", nil)
	first := make(chan error, 1)
	go func() {
		_, err := b.Ask(context.Background(), b.question("first"), time.Minute, new(bytes.Buffer))
		first <- err
	}()
	awaittest.Until(t, "the first to wait", func() bool { return b.Left() > 0 })
	began, left := time.Now(), b.Left()
	res, _, err := b.put(t, "second")
	if took := time.Since(began); err != nil || took < left {
		t.Errorf("%+v after %v, wanted after %v: %v", res, took, left, err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestTime: an answer that takes too long is the model's fault, and one that
// never begins the provider's.
func TestTime(t *testing.T) {
	for _, api := range apis() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, api, "conversations: [{match: slow, turns: [{say: \"a rather long answer to this\", pause: 10s}]}]\nturns: [{before: [{hang: true, times: -1}]}]", nil)
			res, err := b.Ask(t.Context(), b.question("slow"), 5*time.Second, new(bytes.Buffer)) // it begins at once
			if err != nil || res.End != model.TimedOut {
				t.Errorf("%+v, %v", res, err)
			}
			if _, err = b.Ask(t.Context(), b.question("dead"), 100*time.Millisecond, new(bytes.Buffer)); err == nil || errors.Is(err, relay.ErrRejected) {
				t.Errorf("a provider that says nothing: %v", err)
			}
		})
	}
}

// TestHostileProvider: whatever a provider sends is bounded, and the key that it
// reflects is in no error.
func TestHostileProvider(t *testing.T) {
	for _, api := range apis() {
		for _, fault := range []string{"endless: line", "endless: events", "bomb: 100000000", "close: true", "status: 401, reflect: true", "status: 400, reflect: true"} {
			if testing.Short() && (strings.HasPrefix(fault, "bomb") || strings.HasPrefix(fault, "endless") && api != apis()[0]) {
				continue // half a minute each under the race detector
			}
			t.Run(api+"/"+fault, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, api, "turns: [{before: [{"+fault+", times: -1}]}]", func(m *harness.Model) { m.Requests = 1 })
				res, _, err := b.put(t, "q")
				// On a busy machine, time may end before what is read is too much.
				if err == nil && res.End != model.OverBudget && res.End != model.TimedOut {
					t.Errorf("%+v", res)
				}
				if text := fmt.Sprint(err, res, b.Client); strings.Contains(text, key) || len(text) > 4000 {
					t.Errorf("%s", text)
				}
			})
		}
	}
}

// TestCheck: a wrong key and a wrong model are found before the first question,
// and servers that list no models, or want no key, pass.
func TestCheck(t *testing.T) {
	for _, api := range apis() {
		b := newBench(t, api, "turns: [{say: x}]", func(m *harness.Model) { m.Model = "m-3" })
		if err := b.Check(t.Context()); !errors.Is(err, relay.ErrRejected) || !strings.Contains(err.Error(), "it has m-1)") {
			t.Errorf("%s: %v", api, err)
		}
		set := harness.Model{Relay: harness.Relay{Model: "m-1", Address: access.Address{API: api, BaseURL: b.url}}}
		c, err := model.New(model.Config{Settings: set, Keys: access.Keys{Key: "sk-another-0123456789"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(t.Context()); !errors.Is(err, relay.ErrRejected) || strings.Contains(err.Error(), "another") {
			t.Errorf("%s with a wrong key: %v", api, err)
		}
	}
}

// TestRejectedQuestionIsCounted: the question of our own that shows whether the
// provider rejects any is in what the attempt spent, once, and ends no budget early.
func TestRejectedQuestionIsCounted(t *testing.T) {
	for _, api := range apis() {
		for _, budget := range []int64{0, 1} {
			b := newBench(t, api, `conversations: [{match: "Say OK.", turns: [{say: "OK", usage: {input: 7, output: 2}}]}]
turns: [{before: [{status: 400, times: -1}]}]`, func(m *harness.Model) {
				m.Requests = budget
				m.Prices = map[string]harness.Price{"m-1": {Input: 1e6, Output: 1e6}}
			})
			for n, want := range []struct{ requests, input int64 }{{2, 7}, {2, 7}} {
				res, _, err := b.put(t, "q")
				if err != nil || res.End != model.Refused {
					t.Fatalf("%s: %+v, %v", api, res, err)
				}
				counts := b.Counts(res)
				if counts["requests"] != want.requests || counts["input_tokens"] != want.input || counts["cost_microusd"] != 9e6 ||
					len(res.Tries) != 2 || res.Tries[0].Own || !res.Tries[1].Own {
					t.Errorf("%s, question %d: %v, %+v", api, n, counts, res.Tries)
				}
			}
		}
	}
}

// TestInvalidUTF8: bytes of an answer that are no text are replaced, and the answer
// says so; it can be kept for a resume.
func TestInvalidUTF8(t *testing.T) {
	streams := map[string]string{
		access.Chat:      `data: {"id":"c","object":"chat.completion.chunk","model":"m-1","choices":[{"index":0,"delta":{"content":"Answer: X9"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
		access.Responses: "event: response.completed\n" + `data: {"type":"response.completed","response":{"id":"r","status":"completed","model":"m-1","output":[{"type":"message","content":[{"type":"output_text","text":"Answer: X9"}]}],"usage":{"input_tokens":5,"output_tokens":2}}}` + "\n\n",
		access.Messages: "event: message_start\n" + `data: {"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":5,"output_tokens":0}}}` + "\n\n" +
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Answer: X9"}}` + "\n\n" +
			"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}` + "\n\n" +
			"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n",
		access.Gemini: `data: {"candidates":[{"content":{"parts":[{"text":"Answer: X9"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2},"modelVersion":"m-1"}` + "\n\n",
	}
	for _, api := range apis() {
		for bytes, replaced := range map[string]bool{"\xff\xfe": true, "\xc3": true, "\u00e9": false, "\uFFFD": false} {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, strings.Replace(streams[api], "X", bytes, 1))
			}))
			t.Cleanup(h.Close)
			c, err := model.New(model.Config{Settings: harness.Model{Relay: harness.Relay{Address: access.Address{API: api, BaseURL: h.URL}, Model: "m-1"}, MaxTokens: 64}, Keys: access.Keys{Key: key}})
			if err != nil {
				t.Fatal(err)
			}
			j := openJournal(t, filepath.Join(t.TempDir(), "answers.jsonl"), digest.Salt{1})
			c.Keep(j, nil)
			for _, reused := range []bool{false, true} {
				res, err := c.Ask(t.Context(), bench{}.question("q"), 30*time.Second, io.Discard)
				if err != nil || !utf8.ValidString(res.Text) || !strings.HasPrefix(res.Text, "Answer: ") || !strings.HasSuffix(res.Text, "9") ||
					res.Replaced != replaced || replaced && !strings.Contains(res.Text, "\uFFFD") || res.Reused != reused {
					t.Errorf("%s, %q: %q, replaced %t, reused %t: %v", api, bytes, res.Text, res.Replaced, res.Reused, err)
				}
			}
		}
	}
}

// TestNoStream: an address that is no API's, or a server that does not stream, is said
// to be that, and not to have broken off.
func TestNoStream(t *testing.T) {
	for _, api := range apis() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = io.WriteString(w, "<html>Welcome</html>")
			}))
			t.Cleanup(h.Close)
			c, err := model.New(model.Config{Settings: harness.Model{Relay: harness.Relay{Address: access.Address{API: api, BaseURL: h.URL}, Model: "m-1"}, MaxTokens: 64}, Keys: access.Keys{Key: key}})
			if err != nil {
				t.Fatal(err)
			}
			c.Hurry()
			_, _, err = bench{Client: c}.put(t, "question")
			if err == nil || !strings.Contains(err.Error(), "answers with text/html, not with a stream of events: check the base URL") {
				t.Errorf("%v", err)
			}
		})
	}
}
