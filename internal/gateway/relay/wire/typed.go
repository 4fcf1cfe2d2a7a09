package wire

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/upstream"
)

// The answers of the Responses and the Messages API consist of elements and events that
// have a type, and are read alike.

// item is an element of the output in either API.
type item struct {
	Type    string        `json:"type"`
	Text    upstream.Text `json:"text"`
	Content spans         `json:"content"`
}

// span is a part of an item.
type span struct {
	Type string        `json:"type"`
	Text upstream.Text `json:"text"`
}

// spans are those of an item. Some have a text instead, which is not of interest.
type spans []span

// UnmarshalJSON is lenient.
func (p *spans) UnmarshalJSON(v []byte) error {
	var all []span
	if jsontext.Value(v).Kind() == '[' && upstream.Decode(v, &all) == nil {
		*p = all
	}
	return nil
}

// says reports whether a text is more than blanks.
func says(t upstream.Text) bool { return strings.TrimSpace(string(t)) != "" }

// call reports whether the client is to run a tool.
func (i item) call() bool {
	return i.Type == "tool_use" || strings.HasSuffix(i.Type, "_call") &&
		i.Type != "web_search_call" && i.Type != "file_search_call" && i.Type != "image_generation_call"
}

// item notes an element of the output in either API.
func (e *ending) item(i item) {
	if i.Type == "reasoning" || strings.HasSuffix(i.Type, "thinking") {
		return
	}
	e.said = e.said || says(i.Text) || i.call()
	for _, part := range i.Content {
		e.said = e.said || says(part.Text)
		e.declined = e.declined || part.Type == "refusal"
	}
}

// typedEvent reads an event. Most are pieces of output, which are only measured.
func typedEvent(m *meter, name, data []byte) {
	if bytes.HasSuffix(name, []byte(".delta")) || string(name) == "content_block_delta" {
		m.piece(name, data)
		return
	}
	var e struct {
		Type     string         `json:"type"`
		Item     item           `json:"item"`
		Block    item           `json:"content_block"`
		Usage    jsontext.Value `json:"usage"`
		Delta    jsontext.Value `json:"delta"`
		Response struct {
			Usage   jsontext.Value `json:"usage"`
			Details struct {
				Reason string `json:"reason"`
			} `json:"incomplete_details"`
		} `json:"response"`
		Message struct {
			Usage jsontext.Value `json:"usage"`
		} `json:"message"`
	}
	if upstream.Decode(data, &e) != nil {
		return
	}
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed":
		m.merge(e.Response.Usage)
		m.done, m.end.stop = true, e.Response.Details.Reason
		m.end.failed = e.Type == "response.failed"
	case "response.output_item.done":
		m.count(e.Item)
	case "message_start":
		m.merge(e.Message.Usage)
	case "content_block_start":
		m.count(e.Block)
	case "message_delta":
		m.merge(e.Usage)
		m.stopped(e.Delta)
	case "message_stop":
		m.done = true
	case "error":
		m.end.failed = true
	default:
		if len(name) == 0 && (strings.HasSuffix(e.Type, ".delta") || e.Type == "content_block_delta") {
			m.piece([]byte(e.Type), data)
		}
	}
}

// piece counts a piece of output.
func (m *meter) piece(name, data []byte) {
	// What surrounds the text of a piece is about 100 bytes.
	m.guess += max(Guess(int64(len(data)-100)), 1)
	switch string(name) {
	case "response.output_text.delta":
		m.end.said = true
	case "response.refusal.delta":
		m.end.declined = true
	case "content_block_delta":
		m.end.said = m.end.said || bytes.Contains(data, []byte("text_delta"))
	}
}

// stopped notes why a message ended.
func (m *meter) stopped(delta jsontext.Value) {
	var d struct {
		Reason string `json:"stop_reason"`
	}
	if upstream.Decode(delta, &d) == nil && d.Reason != "" {
		m.end.stop = d.Reason
	}
}

// count counts an element of the output.
func (m *meter) count(i item) {
	m.end.item(i)
	if i.call() {
		m.calls++
	}
}

// typedWhole reads an answer that is one JSON text.
func typedWhole(m *meter, body []byte) bool {
	var raw struct {
		Usage   jsontext.Value `json:"usage"`
		Stop    string         `json:"stop_reason"`
		Status  string         `json:"status"`
		Output  []item         `json:"output"`
		Content []item         `json:"content"`
		Details struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Error jsontext.Value `json:"error"`
	}
	if upstream.Decode(body, &raw) != nil {
		return false
	}
	m.done = true
	m.merge(raw.Usage)
	m.end.stop = cmp.Or(raw.Details.Reason, raw.Stop)
	for _, i := range append(raw.Output, raw.Content...) {
		m.count(i)
	}
	failed := raw.Status == "failed" || len(raw.Error) > 0 && raw.Error.Kind() != 'n'
	return !failed && (raw.Output != nil || raw.Content != nil)
}

// rawUsage is the usage in both APIs.
type rawUsage struct {
	Input   jsontext.Value `json:"input_tokens"`
	Output  jsontext.Value `json:"output_tokens"`
	Read    jsontext.Value `json:"cache_read_input_tokens"`
	Created jsontext.Value `json:"cache_creation_input_tokens"`
	Details struct {
		Cached  jsontext.Value `json:"cached_tokens"`
		Written jsontext.Value `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
}

// merge takes over what a usage says. A later one replaces the parts that it
// has; a part that makes no sense leaves nothing known.
func (m *meter) merge(v jsontext.Value) {
	var raw rawUsage
	if len(v) == 0 || v.Kind() == 'n' {
		return
	}
	if upstream.Decode(v, &raw) != nil {
		m.input, m.output = -1, -1
		return
	}
	cached := max(number(raw.Read), number(raw.Details.Cached), 0)
	if in := number(raw.Input); in >= 0 {
		// Anthropic's input excludes the cache, OpenAI's includes it.
		m.input = max(in+max(number(raw.Read), 0)+max(number(raw.Created), 0), m.input)
		m.cached = min(max(cached, m.cached), m.input)
		m.written = min(max(number(raw.Created), number(raw.Details.Written), m.written), m.input-m.cached)
	} else if len(raw.Input) > 0 {
		m.input = -1
	}
	if len(raw.Output) > 0 {
		m.output = number(raw.Output)
	}
}
