package model_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/gateway/access"
)

// answering is a client of a server that sends the same to every question.
func answering(t *testing.T, api, form, text string) (b bench, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", form)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(h.Close)
	c, err := model.New(model.Config{Settings: harness.Model{Relay: harness.Relay{Address: access.Address{API: api, BaseURL: h.URL}, Model: "m-1"}, MaxTokens: 64}, Keys: access.Keys{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	c.Hurry()
	return bench{Client: c}, asked
}

// TestWholeAnswer: a server that cannot stream answers with JSON, which is the answer.
func TestWholeAnswer(t *testing.T) {
	for api, text := range map[string]string{
		access.Responses: `{"id":"r","object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"model":"m-1","output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"nine"}]}],"usage":{"input_tokens":5,"output_tokens":2}}`,
		access.Chat:      `{"id":"c","object":"chat.completion","model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"nine","reasoning_content":"hm"},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`,
		access.Messages:  `{"id":"m","type":"message","role":"assistant","model":"m-1","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"nine"}],"stop_reason":"max_tokens","usage":{"input_tokens":5,"output_tokens":2}}`,
		access.Gemini:    `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"nine"}]},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1,"thoughtsTokenCount":1},"modelVersion":"m-1"}`,
	} {
		b, asked := answering(t, api, "application/json; charset=utf-8", text)
		res, seen, err := b.put(t, "q")
		counts := b.Counts(res)
		if err != nil || res.Text != "nine" || res.Reasoning != "hm" || res.Model != "m-1" || seen != "nine" || asked.Load() != 1 ||
			res.Usage.Input != 5 || res.Usage.Output != 2 || counts["answers"] != 1 || counts["answers_truncated"] != 1 || counts["answers_estimated"] != 0 {
			t.Errorf("%s: %+v, %q, %v: %v", api, res, seen, counts, err)
		}
	}
}

// TestFormErrors: what can be no answer, however often it is asked, is asked once.
func TestFormErrors(t *testing.T) {
	for _, api := range apis() {
		for name, c := range map[string]struct{ form, text string }{
			"another page":   {"text/html", "<html>"},
			"another JSON":   {"application/json", `{"choices":[]}`},
			"no JSON":        {"application/json", `{"choices":`},
			"no end":         {"text/event-stream", "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"nine\"}}]}\n\n"},
			"over the limit": {"application/json", `"` + strings.Repeat("x", 32<<20) + `"`},
		} {
			b, asked := answering(t, api, c.form, c.text)
			res, _, err := b.put(t, "q")
			if !errors.Is(err, model.ErrForm) || asked.Load() != 1 || b.Counts(res)["answers"] != 0 {
				t.Errorf("%s, %s: asked %d times: %v", api, name, asked.Load(), err)
			}
		}
	}
}

// TestReasoningIsKept: what a model thought is beside its answer, and no part of it.
func TestReasoningIsKept(t *testing.T) {
	for api, text := range map[string]string{
		access.Responses: "data: {\"type\":\"response.reasoning_summary_text.delta\",\"delta\":\"hm\"}\n\n" +
			"data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"nine\"}]}]}}\n\n",
		access.Chat: "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"nine\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		access.Messages: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m-1\"}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"nine\"}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		access.Gemini: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hm\",\"thought\":true}]}}]}\n\n" +
			"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"nine\"}]},\"finishReason\":\"STOP\"}]}\n\n",
	} {
		b, _ := answering(t, api, "text/event-stream", text)
		if res, _, err := b.put(t, "q"); err != nil || res.Text != "nine" || res.Reasoning != "hm" {
			t.Errorf("%s: %+v: %v", api, res, err)
		}
	}
}

// TestSplitCharacter: a character whose bytes come in two pieces is whole in the answer.
func TestSplitCharacter(t *testing.T) {
	const piece = `data: {"choices":[{"delta":{"content":"%s"},"finish_reason":"stop"}]}` + "\n\n"
	b, _ := answering(t, access.Chat, "text/event-stream", fmt.Sprintf(piece+piece, "\\u00e9\\n\xc3", "\xa9\\\""))
	if res, _, err := b.put(t, "q"); err != nil || res.Text != "\u00e9\n\u00e9\"" || res.Replaced {
		t.Errorf("%q, replaced %t: %v", res.Text, res.Replaced, err)
	}
}

// TestPoisonedQuestion: a question at which the provider fails each time, though it
// answers others, is refused, and not asked again; in an outage it is nobody's.
func TestPoisonedQuestion(t *testing.T) {
	const own = "conversations: [{match: \"Say OK.\", turns: [{say: OK}]}]\n"
	for _, api := range apis() {
		for fault, why := range map[string]string{"status: 500": "status 500", "close: true": "EOF"} {
			poison := "turns: [{before: [{" + fault + ", times: -1}]}]"
			b := newBench(t, api, own+poison, nil)
			res, _, err := b.put(t, "q")
			if err != nil || res.End != model.Refused || res.Requests != 5 || !strings.Contains(res.Why, why) {
				t.Errorf("%s, %s: %+v, %v", api, fault, res, err)
			}
			out := newBench(t, api, poison, nil)
			if _, _, err = out.put(t, "q"); err == nil || !strings.Contains(err.Error(), "failed 4 times") {
				t.Errorf("%s, %s, in an outage: %v", api, fault, err)
			}
		}
	}
}

// TestErrorEvents: an answer that the provider ends with an error each time is asked for
// as often as any failure, and then no more; one that it ends so once is had.
func TestErrorEvents(t *testing.T) {
	const failed = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"it broke\"}}\n\n"
	for _, api := range apis() {
		b, asked := answering(t, api, "text/event-stream", failed)
		if _, _, err := b.put(t, "q"); !errors.Is(err, model.ErrForm) || asked.Load() != 4 || !strings.Contains(err.Error(), "it broke") {
			t.Errorf("%s: asked %d times: %v", api, asked.Load(), err)
		}
	}
}

// TestIdleConnections: a small server closes connections that were used, as the next
// question comes. With a budget of one request, every question is answered.
func TestIdleConnections(t *testing.T) {
	const text = `{"choices":[{"message":{"content":"nine"},"finish_reason":"stop"}]}`
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	var served atomic.Int64
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				served.Add(1)
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
				_, _ = in.ReadByte() // of the next request, or the end
			}()
		}
	}()
	set := harness.Model{Relay: harness.Relay{Address: access.Address{API: access.Chat, BaseURL: "http://" + ln.Addr().String()}, Model: "m-1"}, MaxTokens: 64}
	set.Requests = 1
	c, err := model.New(model.Config{Settings: set, Keys: access.Keys{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	const questions = 40
	for n := range questions {
		res, _, err := bench{Client: c}.put(t, fmt.Sprint(n))
		if err != nil || res.End != model.Answered || res.Requests != 1 || res.Waited > 0 {
			t.Fatalf("question %d: %+v, %v", n, res, err)
		}
	}
	if served.Load() != questions {
		t.Errorf("%d requests were served", served.Load())
	}
}
