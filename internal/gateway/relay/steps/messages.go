package steps

import (
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/relay/wire"
	"securebench/internal/gateway/upstream"
	"securebench/internal/trajectory"
)

// Messages is the dialect of Anthropic's Messages API.
func Messages() *Dialect {
	return &Dialect{asked: messagesAsked, event: messagesEvent, whole: messagesWhole}
}

// block is a part of a message.
type block struct {
	piece
	Thinking  upstream.Text  `json:"thinking"`
	ID        upstream.Text  `json:"id"`
	Name      upstream.Text  `json:"name"`
	Input     jsontext.Value `json:"input"`
	ToolUseID upstream.Text  `json:"tool_use_id"`
	Content   jsontext.Value `json:"content"`
	IsError   jsontext.Value `json:"is_error"`
}

// step is that of a block. A message without text is none.
func (b block) step() trajectory.Step {
	switch kind := string(b.Type); {
	case kind == "thinking":
		return trajectory.Step{Kind: trajectory.Reasoning, Text: string(b.Thinking)}
	case strings.HasSuffix(kind, "tool_use"):
		return trajectory.Step{Kind: trajectory.Call, Call: string(b.ID), Name: string(b.Name), Text: compact(b.Input)}
	case strings.HasSuffix(kind, "tool_result"):
		return trajectory.Step{Kind: trajectory.Result, Call: string(b.ToolUseID), Text: result(b.Content), Failed: b.IsError.Kind() == 't'}
	case kind == "redacted_thinking":
		return trajectory.Step{Kind: trajectory.Message}
	}
	return trajectory.Step{Kind: trajectory.Message, Text: b.String()}
}

// blocks adds the blocks of a message's content.
func blocks(add func(trajectory.Step) bool, role upstream.Text, content jsontext.Value) bool {
	if content.Kind() == '"' {
		return says(add, role, content)
	}
	more := true
	wire.Elements(content, func(v jsontext.Value) bool {
		s := read[block](v).step()
		if s.Kind == trajectory.Message {
			s.Role = string(role)
		}
		if s.Text != "" || s.Kind == trajectory.Call || s.Kind == trajectory.Result {
			more = add(s)
		}
		return more
	})
	return more
}

// messagesAsked returns the parts of a request.
func messagesAsked(body jsontext.Value) iter.Seq[trajectory.Part] {
	return func(yield func(trajectory.Part) bool) {
		system := wire.Member(body, "system")
		_ = yield(trajectory.Part{Place: "messages system", Raw: system, Steps: func(add adder) bool { return blocks(add, "system", system) }}) &&
			parts("messages", wire.Member(body, "messages"), yield, func(v jsontext.Value, add adder) bool {
				m := read[struct {
					Role    upstream.Text  `json:"role"`
					Content jsontext.Value `json:"content"`
				}](v)
				return blocks(add, m.Role, m.Content)
			})
	}
}

// messagesEvent reads an event.
func messagesEvent(a *Answer, _ string, data jsontext.Value) {
	e := read[struct {
		Type  upstream.Text  `json:"type"`
		Index jsontext.Value `json:"index"`
		Block jsontext.Value `json:"content_block"`
		Delta struct {
			Text     upstream.Text `json:"text"`
			Thinking upstream.Text `json:"thinking"`
			JSON     upstream.Text `json:"partial_json"`
		} `json:"delta"`
	}](data)
	index, err := strconv.ParseUint(string(e.Index), 10, 31)
	if err != nil {
		return
	}
	key := strconv.FormatUint(index, 10)
	switch e.Type {
	case "content_block_start":
		s := read[block](e.Block).step()
		if s.Kind == trajectory.Call && s.Text == "{}" {
			s.Text = "" // the input follows
		}
		a.begin(key, s)
	case "content_block_delta":
		if p := a.open[key]; p != nil {
			a.piece(key, p.step.Kind, e.Delta.Text+e.Delta.Thinking+e.Delta.JSON)
		}
	}
}

// messagesWhole reads an answer.
func messagesWhole(a *Answer, body jsontext.Value) {
	r := read[struct {
		Content jsontext.Value `json:"content"`
	}](body)
	blocks(a.add, "", r.Content)
}
