package model

import (
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/upstream"
	"securebench/internal/picture"
)

func askMessages(set harness.Model, q Question) any {
	type block struct {
		Text string `json:"text"`
		Type string `json:"type"`
	}
	type message struct {
		Content []any  `json:"content"`
		Role    string `json:"role"`
	}
	type choice struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	tools, forced := messagesTools(q.Tools), choice{}
	if q.Form != nil { // this API has no other way to ask for a form
		tools, forced = append(tools, messagesTool{Name: q.Form.Name, Schema: q.Form.Schema}), choice{q.Form.Name, "tool"}
	}
	var system []block
	if q.System != "" {
		system = []block{{q.System, "text"}}
	}
	var messages []message
	for _, x := range q.Examples {
		messages = append(messages, message{[]any{block{x.User, "text"}}, "user"}, message{[]any{block{x.Assistant, "text"}}, "assistant"})
	}
	content := []any{block{q.User, "text"}}
	if q.Parts != nil {
		content = contentOf(q.Parts, func(text string) any { return block{text, "text"} }, messagesFile)
	}
	return struct {
		MaxTokens   int64          `json:"max_tokens"`
		Messages    []message      `json:"messages"`
		Model       string         `json:"model"`
		Temperature *float64       `json:"temperature,omitzero"`
		Output      effort         `json:"output_config,omitzero"`
		Stop        []string       `json:"stop_sequences,omitzero"`
		System      []block        `json:"system,omitzero"`
		Tools       []messagesTool `json:"tools,omitzero"`
		Choice      choice         `json:"tool_choice,omitzero"`
		Stream      bool           `json:"stream"`
	}{set.MaxTokens, append(messages, message{content, "user"}), set.Model, set.Temperature, effort{set.Effort}, set.Stop, system, tools, forced, true}
}

// messagesTool is a tool as the API has it.
type messagesTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Schema      jsontext.Value `json:"input_schema"`
}

func messagesTools(tools []harness.Tool) (out []messagesTool) {
	for _, t := range tools {
		out = append(out, messagesTool{t.Name, t.Description, t.Parameters})
	}
	return out
}

// messagesFile is a file as a block.
func messagesFile(p harness.Part) any {
	kind := "image"
	if p.Type == picture.PDF {
		kind = "document"
	}
	return object{"source": object{"data": p.Data, "media_type": p.Type, "type": "base64"}, "type": kind}
}

// message is an answer of the Messages API, or its begin.
type message struct {
	Model   string        `json:"model"`
	Content []content     `json:"content"`
	Stop    string        `json:"stop_reason"`
	Usage   messagesUsage `json:"usage"`
}

// content is a part of an answer, or a piece of one.
type content struct {
	Text     upstream.Text `json:"text"`
	Thinking upstream.Text `json:"thinking"`
	// Of a call of a tool.
	Type  string         `json:"type"`
	Name  upstream.Text  `json:"name"`
	Input jsontext.Value `json:"input"`
	Piece upstream.Text  `json:"partial_json"` // of the input
}

// toolUse is the type of a block that calls a tool.
const toolUse = "tool_use"

type messagesUsage struct {
	Input         count `json:"input_tokens"`
	Read          count `json:"cache_read_input_tokens"`
	Created       count `json:"cache_creation_input_tokens"`
	Output        count `json:"output_tokens"`
	OutputDetails struct {
		Reasoning count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// read returns the usage. Anthropic's input does not include what was read from a
// cache or written to one.
func (u *messagesUsage) read() Usage {
	return Usage{Input: int64(u.Input + u.Read + u.Created), Cached: int64(u.Read), Written: int64(u.Created),
		Output: int64(u.Output), Reasoning: int64(u.OutputDetails.Reasoning)}
}

// declined is why an answer ends in which the model declines.
const declined = "refusal"

func wholeMessage(body []byte) (Answer, bool) {
	var m message
	ok := upstream.Decode(body, &m) == nil && m.Stop != ""
	a := Answer{Model: m.Model, Stop: m.Stop, Usage: m.Usage.read(), Declined: m.Stop == declined}
	for _, block := range m.Content {
		a.Text += string(block.Text)
		a.Reasoning += string(block.Thinking)
		if block.Type == toolUse {
			a.calls = append(a.calls, called{string(block.Name), string(block.Input)})
		}
	}
	return a, ok
}

func messageEvent(s *stream, data []byte) error {
	var e struct {
		Type    string  `json:"type"`
		Index   int64   `json:"index"`
		Block   content `json:"content_block"`
		Message message `json:"message"`
		Delta   struct {
			content
			Stop string `json:"stop_reason"`
		} `json:"delta"`
		Usage messagesUsage `json:"usage"`
	}
	if err := upstream.Decode(data, &e); err != nil {
		return err
	}
	switch e.Type {
	case "message_start":
		s.Model, s.Usage = e.Message.Model, e.Message.Usage.read()
	case "content_block_start":
		if e.Block.Type == toolUse {
			s.pending.piece(&e.Index, "", e.Block.Name, begun(e.Block.Input))
		}
	case "content_block_delta":
		if e.Delta.Piece != "" {
			s.pending.piece(&e.Index, "", "", e.Delta.Piece)
		}
		s.add(e.Delta.Text)
		s.reasoning.WriteString(string(e.Delta.Thinking))
	case "message_delta":
		s.Stop, s.Declined = e.Delta.Stop, e.Delta.Stop == declined
		u := e.Usage.read()
		if u.Input < s.Usage.Input { // it may leave parts out
			u.Input, u.Cached, u.Written = s.Usage.Input, s.Usage.Cached, s.Usage.Written
		}
		s.Usage = u
	case "message_stop":
		s.complete = true
	}
	return nil
}

// begun is the input with which a call begins: as a rule an empty object, whose pieces
// follow.
func begun(input jsontext.Value) upstream.Text {
	if v := input.Clone(); v.Compact() == nil && string(v) != "{}" {
		return upstream.Text(v)
	}
	return ""
}
