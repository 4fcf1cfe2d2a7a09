package wire

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/upstream"
)

// chatValues are what is counted of an answer, and of the pieces of one.
func chatValues() string {
	const said = "content refusal reasoning_content reasoning tool_calls function_call"
	return "error usage choices.finish_reason " + below("choices.delta.", said) + " " + below("choices.message.", said)
}

// chatEvent reads what an event is beside its values. One that has the usage and no part of
// an answer comes because it was asked for.
func chatEvent(m *meter, _, data []byte) {
	m.done = m.done || string(data) == "[DONE]"
	m.bare = m.bare && bytes.Contains(data, []byte(`"usage"`))
}

// chatWhole reads an answer that is one JSON text.
func chatWhole(m *meter, values *place, body []byte) bool {
	if !isJSON(body) {
		return false
	}
	choices := false
	w := walker{each: func(path string, v jsontext.Value) {
		choices = choices || strings.HasPrefix(path, "choices.")
		m.chat(path, v)
	}}
	m.done = w.walk(body, values)
	return m.done && choices && !m.end.failed
}

// chat notes a value of an answer.
func (m *meter) chat(path string, v jsontext.Value) {
	if absent(v) {
		return
	}
	switch strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(path, "choices."), "delta."), "message.") {
	case "choices":
		m.bare = v.Kind() == '[' && empty(v)
	case "finish_reason":
		if stop, _ := text(v); stop != "" {
			m.end.stop, m.done = stop, true
		}
	case "content":
		m.said(v)
		m.end.said = m.end.said || saysSomething(v)
	case "refusal":
		m.said(v)
		m.end.declined = m.end.declined || string(v) != `""`
	case "reasoning_content", "reasoning":
		m.said(v)
	case "tool_calls":
		m.chatCalls(v)
	case "function_call":
		m.chatCalls(jsontext.Value("[{\"function\":" + string(v) + "}]"))
	case "usage":
		m.chatUsage(v)
	case "error":
		m.end.failed = true
	}
}

// saysSomething reports whether content is more than blanks and thoughts.
func saysSomething(v jsontext.Value) bool {
	if s, ok := text(v); ok {
		return strings.TrimSpace(s) != ""
	}
	var parts spans
	_ = parts.UnmarshalJSON(v) // which is lenient
	return slices.ContainsFunc(parts, func(p span) bool { return says(p.Text) })
}

// said counts a piece of output. What surrounds it costs nothing.
func (m *meter) said(v jsontext.Value) { m.guess += max(Guess(int64(len(v)-2)), 1) }

// chatCalls counts calls of tools. In a stream, the first piece of each has its name.
func (m *meter) chatCalls(v jsontext.Value) {
	var all []struct {
		Function struct {
			Name upstream.Text `json:"name"`
		} `json:"function"`
		Custom struct {
			Name upstream.Text `json:"name"`
		} `json:"custom"`
	}
	m.said(v)
	if upstream.Decode(v, &all) != nil {
		return
	}
	for _, c := range all {
		if c.Function.Name+c.Custom.Name != "" {
			m.calls++
			m.end.said = true
		}
	}
}

// chatUsage takes over what an answer says of its usage. The output is what is not the
// request: some servers leave the reasoning out of it.
func (m *meter) chatUsage(v jsontext.Value) {
	var raw struct {
		Input   jsontext.Value `json:"prompt_tokens"`
		Output  jsontext.Value `json:"completion_tokens"`
		Total   jsontext.Value `json:"total_tokens"`
		Hit     jsontext.Value `json:"prompt_cache_hit_tokens"` // of DeepSeek's
		Details struct {
			Cached  jsontext.Value `json:"cached_tokens"`
			Written jsontext.Value `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
	}
	if upstream.Decode(v, &raw) != nil {
		m.input, m.output = -1, -1
		return
	}
	m.counted(number(raw.Input), number(raw.Output), number(raw.Total), max(number(raw.Details.Cached), number(raw.Hit)), number(raw.Details.Written))
}

// counted takes over the numbers of an answer that are valid; -1 is none.
func (m *meter) counted(input, output, total, cached, written int64) {
	if input >= 0 && output >= 0 {
		output = max(output, total-input)
	}
	m.input, m.output = input, output
	m.cached = min(max(cached, 0), max(input, 0))
	m.written = min(max(written, 0), max(input, 0)-m.cached)
}

// isJSON reports whether a provider's answer is JSON.
func isJSON(body []byte) bool {
	return jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}
