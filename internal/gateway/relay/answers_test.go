package relay

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestRefusalsAreCounted: an agent that speaks another API is told what is served
// and which setting changes that, and its requests are counted; one that speaks the
// right one, and one whose budget is spent, are refused nothing that counts.
func TestRefusalsAreCounted(t *testing.T) {
	for api, c := range map[API]struct{ wrong, right, body, stream, says string }{
		Responses: {"/v1/chat/completions", pathResponses, codexBody, codexStream, "only POST /v1/responses is served here, because harness.config says api: openai_responses"},
		Gemini:    {pathChat, pathGeminiStream, geminiBody, geminiStream, "only POST /v1beta/models/MODEL:generateContent is served here, because harness.config says api: gemini; an agent that speaks Chat Completions needs api: openai_chat"},
		Chat:      {pathMessages, pathChat, chatBody, chatStream, "only POST /v1/chat/completions is served here, because harness.config says api: openai_chat; an agent that speaks the Messages API needs api: anthropic_messages"},
		Messages:  {pathResponses, pathMessages, claudeBody, claudeStream, "only POST /v1/messages is served here, because harness.config says api: anthropic_messages"},
	} {
		base := provider(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, c.stream)
		})
		wrong := start(t, newRelay(t, config(api, base))).listen()
		for range 3 {
			if status, text := wrong.post(c.wrong, c.body); status != http.StatusForbidden || !strings.Contains(text, c.says) {
				t.Errorf("%s: %d %s", api, status, text)
			}
		}
		refusal, cut := wrong.Words()
		if u := wrong.Usage(); u[Refusals] != 3 || u[Answers] != 0 || !strings.Contains(refusal, c.says) || cut != "" {
			t.Errorf("%s: %v, %q, %q", api, u, refusal, cut)
		}
		cfg := config(api, base)
		cfg.Budget.Requests = 1
		right := start(t, newRelay(t, cfg)).listen()
		right.post(c.right, c.body)
		right.post(c.right, c.body)
		refusal, _ = right.Words()
		if u := right.Usage(); u[Refusals] != 0 || u[Answers] != 1 || refusal != "" || !right.Spent() {
			t.Errorf("%s: %v, %q", api, u, refusal)
		}
	}
}

// TestAnswersAreCounted: what a score should be read with is counted, of streams and
// of whole answers, and an answer that ends in an error is none.
func TestAnswersAreCounted(t *testing.T) {
	done := func(rest string) string {
		return "event: response.incomplete\ndata: {\"type\":\"response.incomplete\",\"response\":{" + rest + "\"usage\":{\"input_tokens\":9,\"output_tokens\":9}}}\n\n"
	}
	said := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"four\"}\n\n"
	reasoned := "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"reasoning\",\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]}}\n\n"
	const long = `"incomplete_details":{"reason":"max_output_tokens"},`
	message := func(block, delta, stop string) string {
		return "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":6,\"output_tokens\":1}}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"" + block + "\"}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"" + delta + "\"}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" + stop + "\"},\"usage\":{\"output_tokens\":10}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	}
	completion := func(delta, stop string) string {
		return "data: {\"choices\":[{\"delta\":" + delta + "}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"" + stop + "\"}],\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
	}
	candidate := func(parts, stop string) string {
		return "data: {\"candidates\":[{\"content\":{\"parts\":[" + parts + "]}}]}\n\ndata: {\"candidates\":[{\"finishReason\":\"" + stop + "\"}],\"usageMetadata\":{\"promptTokenCount\":6,\"candidatesTokenCount\":1}}\n\n"
	}
	for name, c := range map[string]struct {
		api  API
		text string
		want map[string]int64
	}{
		"a text":             {Responses, said + done(""), map[string]int64{Answers: 1}},
		"a call":             {Responses, codexStream, map[string]int64{Answers: 1}},
		"cut off":            {Responses, said + done(long), map[string]int64{Answers: 1, Truncated: 1}},
		"reasoning alone":    {Responses, reasoned + done(long), map[string]int64{Answers: 1, Truncated: 1, Empty: 1}},
		"a filter":           {Responses, done(`"incomplete_details":{"reason":"content_filter"},`), map[string]int64{Answers: 1, Declined: 1}},
		"an error":           {Responses, said + "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{}}\n\n", map[string]int64{}},
		"no usage":           {Responses, said + "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n", map[string]int64{Answers: 1, Guessed: 1}},
		"whole":              {Responses, `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning"}],"usage":{"input_tokens":1,"output_tokens":1}}`, map[string]int64{Answers: 1, Truncated: 1, Empty: 1}},
		"whole, a text":      {Responses, `{"output":[{"type":"message","content":[{"type":"output_text","text":"4"}]}],"usage":{"input_tokens":1,"output_tokens":1}}`, map[string]int64{Answers: 1}},
		"whole, no answer":   {Responses, `{"error":{"message":"x"}}`, map[string]int64{}},
		"a message":          {Messages, message("text", "text_delta", "end_turn"), map[string]int64{Answers: 1}},
		"a message, cut off": {Messages, message("text", "text_delta", "max_tokens"), map[string]int64{Answers: 1, Truncated: 1}},
		"thoughts alone":     {Messages, message("thinking", "thinking_delta", "end_turn"), map[string]int64{Answers: 1, Empty: 1}},
		"chat":               {Chat, completion(`{"content":"4"}`, "stop"), map[string]int64{Answers: 1}},
		"chat, a call":       {Chat, chatStream, map[string]int64{Answers: 1}},
		"chat, an old call":  {Chat, completion(`{"function_call":{"name":"f","arguments":"{}"}}`, "function_call"), map[string]int64{Answers: 1}},
		"chat, cut off":      {Chat, completion(`{"content":"4"}`, "length"), map[string]int64{Answers: 1, Truncated: 1}},
		"chat, thoughts":     {Chat, completion(`{"reasoning_content":"hm"}`, "length"), map[string]int64{Answers: 1, Truncated: 1, Empty: 1}},
		"chat, blanks":       {Chat, completion(`{"content":"\n "}`, "stop"), map[string]int64{Answers: 1, Empty: 1}},
		"chat, parts":        {Chat, completion(`{"content":[{"type":"text","text":"4"}]}`, "stop"), map[string]int64{Answers: 1}},
		"chat, a refusal":    {Chat, completion(`{"refusal":"no"}`, "stop"), map[string]int64{Answers: 1, Declined: 1}},
		"chat, a filter":     {Chat, completion(`{"content":"4"}`, "content_filter"), map[string]int64{Answers: 1, Declined: 1}},
		"chat, no usage":     {Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"4\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", map[string]int64{Answers: 1, Guessed: 1}},
		"chat, an error":     {Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"4\"}}]}\n\ndata: {\"error\":{\"message\":\"x\"}}\n\ndata: [DONE]\n\n", map[string]int64{}},
		"whole chat":         {Chat, `{"choices":[{"message":{"content":null},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, map[string]int64{Answers: 1, Truncated: 1, Empty: 1}},
		"whole chat, none":   {Chat, `{"error":{"message":"x"}}`, map[string]int64{}},
		"gemini":             {Gemini, candidate(`{"text":"4"}`, "STOP"), map[string]int64{Answers: 1}},
		"gemini, a call":     {Gemini, geminiStream, map[string]int64{Answers: 1}},
		"gemini, cut off":    {Gemini, candidate(`{"text":"4"}`, "MAX_TOKENS"), map[string]int64{Answers: 1, Truncated: 1}},
		"gemini, thoughts":   {Gemini, candidate(`{"text":"hm","thought":true}`, "MAX_TOKENS"), map[string]int64{Answers: 1, Truncated: 1, Empty: 1}},
		"gemini, a filter":   {Gemini, candidate(`{"text":"4"}`, "SAFETY"), map[string]int64{Answers: 1, Declined: 1}},
		"gemini, blocked":    {Gemini, "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"},\"usageMetadata\":{\"promptTokenCount\":6,\"totalTokenCount\":6}}\n\n", map[string]int64{Answers: 1, Declined: 1}},
		"gemini, no usage":   {Gemini, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"4\"}]},\"finishReason\":\"STOP\"}]}\n\n", map[string]int64{Answers: 1, Guessed: 1}},
		"gemini, an error":   {Gemini, "data: {\"error\":{\"code\":500}}\n\n", map[string]int64{}},
		"whole gemini":       {Gemini, apis[Gemini].told, map[string]int64{Answers: 1}},
		"a refusal":          {Messages, message("text", "text_delta", "refusal"), map[string]int64{Answers: 1, Declined: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			base := provider(t, func(w http.ResponseWriter, _ *http.Request) {
				kind := "text/event-stream"
				if c.text[0] == '{' {
					kind = "application/json"
				}
				w.Header().Set("Content-Type", kind)
				_, _ = io.WriteString(w, c.text)
			})
			g := start(t, newRelay(t, config(c.api, base))).listen()
			g.post(apis[c.api].path, apis[c.api].body)
			u := g.Usage()
			if _, cut := g.Words(); (cut != "") != (c.want[Truncated] > 0) {
				t.Errorf("the last answer was cut off: %q", cut)
			}
			for _, name := range []string{Answers, Truncated, Empty, Declined, Guessed} {
				if u[name] != c.want[name] {
					t.Errorf("%s is %d, want %d", name, u[name], c.want[name])
				}
			}
		})
	}
}
