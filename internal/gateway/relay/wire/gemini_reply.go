package wire

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/upstream"
)

// geminiStops are the words of an answer that a filter of the provider's has stopped.
func geminiStops() []string {
	return []string{"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
}

// geminiValues are what is counted of an answer, and of the pieces of one.
func geminiValues() *place {
	return places("", "", "error usageMetadata promptFeedback.blockReason candidates.finishReason candidates.content.parts")
}

// geminiEvent reads an event.
func geminiEvent(m *meter, values *place, data []byte) {
	w := walker{each: m.gemini}
	w.walk(data, values)
}

// geminiWhole reads an answer that is one JSON text.
func geminiWhole(m *meter, values *place, body []byte) bool {
	if !isJSON(body) {
		return false
	}
	answers := false
	w := walker{each: func(path string, v jsontext.Value) {
		answers = answers || strings.HasPrefix(path, "candidates.") || strings.HasPrefix(path, "promptFeedback.")
		m.gemini(path, v)
	}}
	m.done = w.walk(body, values)
	return m.done && answers && !m.end.failed
}

// gemini notes a value of an answer.
func (m *meter) gemini(path string, v jsontext.Value) {
	switch {
	case absent(v):
	case path == "error":
		m.end.failed = true
	case path == "usageMetadata":
		m.geminiUsage(v)
	case path == "promptFeedback.blockReason":
		m.end.stop, _ = text(v)
		m.end.declined, m.done = true, true
	case path == "candidates.finishReason":
		if stop, _ := text(v); stop != "" && stop != "FINISH_REASON_UNSPECIFIED" {
			m.end.stop, m.done = stop, true
			m.end.declined = m.end.declined || slices.Contains(geminiStops(), stop)
		}
	default:
		m.geminiParts(v)
	}
}

// geminiParts counts the parts of an answer.
func (m *meter) geminiParts(v jsontext.Value) {
	var parts []struct {
		Text    upstream.Text  `json:"text"`
		Thought bool           `json:"thought"`
		Call    jsontext.Value `json:"functionCall"`
	}
	m.said(v)
	if upstream.Decode(v, &parts) != nil {
		return
	}
	for _, p := range parts {
		m.end.said = m.end.said || !p.Thought && says(p.Text)
		if !absent(p.Call) {
			m.calls++
			m.end.said = true
		}
	}
}

// geminiUsage takes over what an answer says of its usage.
func (m *meter) geminiUsage(v jsontext.Value) {
	var raw struct {
		Prompt     jsontext.Value `json:"promptTokenCount"`
		Tools      jsontext.Value `json:"toolUsePromptTokenCount"`
		Candidates jsontext.Value `json:"candidatesTokenCount"`
		Thoughts   jsontext.Value `json:"thoughtsTokenCount"`
		Total      jsontext.Value `json:"totalTokenCount"`
		Cached     jsontext.Value `json:"cachedContentTokenCount"`
	}
	if upstream.Decode(v, &raw) != nil {
		m.input, m.output = -1, -1
		return
	}
	m.counted(sum(raw.Prompt, raw.Tools), sum(raw.Candidates, raw.Thoughts), number(raw.Total), number(raw.Cached), 0)
}

// sum adds counts, of which those that are not there are 0. It is -1 if one makes no sense.
func sum(counts ...jsontext.Value) (all int64) {
	for _, v := range counts {
		if len(v) == 0 {
			continue
		}
		n := number(v)
		if n < 0 {
			return -1
		}
		all += n
	}
	return all
}
