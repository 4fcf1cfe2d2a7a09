package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"securebench/internal/redact"
)

const responsesStream = `event: response.created
data: {"type":"response.created","response":{"id":"r","usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"hello"}

event: response.output_item.done
data: {"type":"response.output_item.done","item":{"type":"function_call","name":"exec_command"}}

event: response.output_item.done
data: {"type":"response.output_item.done","item":{"type":"message"}}

event: response.output_item.done
data: {"type":"response.output_item.done","item":{"type":"web_search_call"}}

event: response.completed
data: {"type":"response.completed","response":{"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":7,"total_tokens":107}}}

`

const messagesStream = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":70,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"Bash","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":33}}

event: message_stop
data: {"type":"message_stop"}

`

const chatStream = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

: a comment

data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":60}}}

data: [DONE]

`

const geminiStream = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hm\",\"thought\":true}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":90,\"thoughtsTokenCount\":2,\"totalTokenCount\":92}}\r\n\r\n" +
	"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hello\"},{\"functionCall\":{\"name\":\"f\",\"args\":{}}}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}]," +
	"\"usageMetadata\":{\"promptTokenCount\":90,\"toolUsePromptTokenCount\":10,\"cachedContentTokenCount\":60,\"candidatesTokenCount\":5,\"thoughtsTokenCount\":2,\"totalTokenCount\":107}}\r\n\r\n"

func read(t *testing.T, d *Dialect, text string, piece int) *Stream {
	t.Helper()
	s := d.NewStream(&redact.Registry{}, NewPool(maxEvent*2), false, func([]byte) error { return nil })
	t.Cleanup(s.Release)
	for len(text) > 0 {
		n := min(piece, len(text))
		if _, err := s.Write([]byte(text[:n])); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	return s
}

func TestStreams(t *testing.T) {
	for _, c := range []struct {
		d    *Dialect
		text string
		want Usage
	}{
		{Responses(), responsesStream, Usage{Input: 100, Cached: 60, Output: 7, ToolCalls: 1}},
		{Messages(), messagesStream, Usage{Input: 100, Cached: 70, Written: 20, Output: 33, ToolCalls: 1}},
		{Messages(), strings.ReplaceAll(messagesStream, "\n", "\r\n"), Usage{Input: 100, Cached: 70, Written: 20, Output: 33, ToolCalls: 1}},
		{Responses(), withoutNames(responsesStream), Usage{Input: 100, Cached: 60, Output: 7, ToolCalls: 1}},
		{Chat(), chatStream, Usage{Input: 100, Cached: 60, Output: 7, ToolCalls: 1}},
		{Gemini(), geminiStream, Usage{Input: 100, Cached: 60, Output: 7, ToolCalls: 1}},
		{Gemini(), strings.ReplaceAll(geminiStream, "\r\n", "\n"), Usage{Input: 100, Cached: 60, Output: 7, ToolCalls: 1}},
		// xAI's servers leave the reasoning out of the output, and many say no total.
		{Chat(), strings.Replace(chatStream, `107`, `150`, 1), Usage{Input: 100, Cached: 60, Output: 50, ToolCalls: 1}},
		{Chat(), strings.Replace(chatStream, `"total_tokens":107,`, ``, 1), Usage{Input: 100, Cached: 60, Output: 7, ToolCalls: 1}},
		{Chat(), strings.Replace(chatStream, "data: [DONE]", ": gone", 1), Usage{Input: 100, Cached: 60, Output: 7, ToolCalls: 1}},
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			s := read(t, c.d, c.text, piece)
			if got, exact := s.Usage(0); got != c.want || !exact || !s.Done() {
				t.Errorf("in pieces of %d: %+v, %v, want %+v", piece, got, exact, c.want)
			}
		}
	}
}

func withoutNames(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "event:") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestCutStream: an agent that leaves before the usage comes has used something
// nevertheless.
func TestCutStream(t *testing.T) {
	delta := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"" + strings.Repeat("x", 400) + "\"}\n\n"
	s := read(t, Responses(), strings.Repeat(delta, 50), 100)
	got, exact := s.Usage(4000)
	if exact || got.Input != 1000 || got.Output < 50*80 {
		t.Errorf("%+v, %v", got, exact)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, usage := range []string{
		`{"input_tokens":-5,"output_tokens":-1}`, `{"input_tokens":1e300,"output_tokens":1e300}`, `{"input_tokens":"9","output_tokens":"9"}`,
		`{"input_tokens":99999999999999999999,"output_tokens":99999999999}`, `"much"`, `[]`, `{"input_tokens":null,"output_tokens":{}}`,
	} {
		got, exact := Responses().Whole([]byte(`{"output":[],"usage":`+usage+`}`), 400)
		if exact || got.Input != 100 || got.Output <= 0 || got.Output > 100 {
			t.Errorf("%s: %+v, %v", usage, got, exact)
		}
	}
	for usage, want := range map[string]Usage{
		`{}`: {Input: 100, Output: 28}, `{"promptTokenCount":0}`: {Output: 28}, `{"promptTokenCount":9}`: {Input: 9, Output: 28}, `{"candidatesTokenCount":4}`: {Input: 100, Output: 4},
		`{"promptTokenCount":9,"totalTokenCount":9}`: {Input: 9}, `{"promptTokenCount":-9,"candidatesTokenCount":4}`: {Input: 100, Output: 4},
	} {
		body := `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":` + usage + `}`
		body += strings.Repeat(" ", 112-len(body))
		if got, exact := Gemini().Whole([]byte(body), 400); got != want || exact != (got.Input < 100 && got.Output < 28) {
			t.Errorf("%s: %+v, %v", usage, got, exact)
		}
	}
	got, exact := Responses().Whole([]byte(`{"usage":{"input_tokens":5,"output_tokens":1,"input_tokens_details":{"cached_tokens":900}}}`), 0)
	if !exact || got.Cached != 5 {
		t.Errorf("more is cached than there is: %+v, %v", got, exact)
	}
	got, _ = Responses().Whole([]byte(`{"usage":{"input_tokens":5,"output_tokens":1},"content":[{"type":"tool_use"},{"type":"text"}]}`), 0)
	if got != (Usage{Input: 5, Output: 1, ToolCalls: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestEndlessEvent(t *testing.T) {
	pool := NewPool(maxEvent / 4)
	for _, line := range []string{"data: ", "data: x\ndata: x\n", ""} {
		s := Responses().NewStream(&redact.Registry{}, pool, false, func([]byte) error { return nil })
		_, err := s.Write([]byte(line))
		for range 2 * maxEvent / (64 << 10) {
			if err == nil {
				_, err = s.Write([]byte(strings.Repeat("x", 64<<10-6) + strings.Repeat("\ndata:", len(line)/16)))
			}
		}
		if !errors.Is(err, ErrTooLong) {
			t.Errorf("%q: %v", line, err)
		}
		s.Release()
	}
	var all int64
	if !pool.Resize(&all, maxEvent/4) {
		t.Error("streams keep memory after their end")
	}
}

// TestLongHonestEvent: the last event repeats the instructions of its request.
func TestLongHonestEvent(t *testing.T) {
	long := strings.Replace(responsesStream, `"response":{"usage"`, fmt.Sprintf(`"response":{"instructions":%q,"usage"`, strings.Repeat("long ", 2<<20)), 1)
	if got, exact := read(t, Responses(), long, 32<<10).Usage(0); got.Output != 7 || !exact {
		t.Errorf("%+v, %v", got, exact)
	}
}

// FuzzStream: a stream means the same however it is cut, and no number in it
// leads to a usage out of bounds.
func FuzzStream(f *testing.F) {
	f.Add([]byte(responsesStream), uint8(3))
	f.Add([]byte(messagesStream), uint8(50))
	f.Add([]byte(chatStream), uint8(9))
	f.Add([]byte(geminiStream), uint8(9))
	f.Add([]byte(`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9}}`), uint8(9))
	f.Add([]byte(`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9}}`), uint8(9))
	f.Add([]byte("data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":-1}}\n\n"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		for _, d := range spoken() {
			whole, _ := read(t, d, string(text), len(text)+1).Usage(8)
			got, _ := read(t, d, string(text), int(piece)+1).Usage(8)
			if got != whole {
				t.Fatalf("whole %+v, in pieces %+v", whole, got)
			}
			if got.Input < 0 || got.Output < 0 || got.Cached < 0 || got.Written < 0 || got.Cached+got.Written > got.Input || got.Input > 3*maxCount {
				t.Fatalf("%+v", got)
			}
			if u, _ := d.Whole(text, 8); u.Input < 0 || u.Output < 0 || u.Cached < 0 || u.Cached > u.Input || u.Input > 3*maxCount {
				t.Fatalf("%+v", u)
			}
		}
	})
}
