package wire

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// geminiStops are the words of an answer that a filter of the provider's has stopped.
func geminiStops() []string {
	return []string{"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
}

// geminiValues are what is counted of an answer, and of the pieces of one.
const geminiValues = "error usageMetadata promptFeedback.blockReason candidates.finishReason" +
	" candidates.content.parts candidates.content.parts.functionCall"

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
	case path == "candidates.content.parts.functionCall":
		m.calls++
		m.end.said = true
	case path == "candidates.content.parts":
		m.said(v)
		m.end.said = m.end.said || geminiSays(v)
	}
}

// members calls each for every member of an object, by its name in quotes, and reports
// whether it is one.
func members(v jsontext.Value, each func(quoted, value jsontext.Value)) bool {
	return walk(v, '{', "", func(s *scanner) error {
		name := s.value()
		if name == nil || !s.Skip(':') {
			return errScan
		}
		value := s.value()
		if value == nil {
			return errScan
		}
		each(name, value)
		return nil
	}) == nil
}

// geminiSays reports whether the parts of an answer, which come with every event, are more
// than blanks and thoughts.
func geminiSays(parts jsontext.Value) (says bool) {
	_ = array(parts, func(part jsontext.Value) error { // what is no list has no parts
		said, thought := false, false
		members(part, func(quoted, value jsontext.Value) {
			switch string(quoted) {
			case `"text"`:
				s, ok := text(value)
				said = !ok || strings.TrimSpace(s) != ""
			case `"thought"`:
				thought = value.Kind() == 't'
			}
		})
		says = says || said && !thought
		return nil
	})
	return says
}

// geminiUsage takes over what an answer says of its usage, with every event.
func (m *meter) geminiUsage(v jsontext.Value) {
	var prompt, tools, candidates, thoughts, total, cached jsontext.Value
	if !members(v, func(quoted, value jsontext.Value) {
		switch string(quoted) {
		case `"promptTokenCount"`:
			prompt = value
		case `"toolUsePromptTokenCount"`:
			tools = value
		case `"candidatesTokenCount"`:
			candidates = value
		case `"thoughtsTokenCount"`:
			thoughts = value
		case `"totalTokenCount"`:
			total = value
		case `"cachedContentTokenCount"`:
			cached = value
		}
	}) {
		m.input, m.output = -1, -1
		return
	}
	input, output := sum(prompt, tools), sum(candidates, thoughts)
	if len(prompt) == 0 {
		input = -1 // none has no token
	}
	if len(candidates)+len(thoughts)+len(total) == 0 {
		output = -1
	}
	m.counted(input, output, number(total), number(cached), 0)
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
