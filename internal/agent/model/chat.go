package model

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/upstream"
	"securebench/internal/picture"
)

// vendor is where the name of a bound on tokens is a new one, which other servers
// do not all know.
const vendor = "https://api.openai.com"

func askChat(set harness.Model, q Question) any {
	type message struct {
		Content any    `json:"content"`
		Role    string `json:"role"`
	}
	type schema struct {
		Name   string         `json:"name"`
		Schema jsontext.Value `json:"schema"`
		Strict bool           `json:"strict"`
	}
	type format struct {
		Schema schema `json:"json_schema"`
		Type   string `json:"type"`
	}
	var r struct {
		Messages      []message `json:"messages"`
		Model         string    `json:"model"`
		NewMaxTokens  int64     `json:"max_completion_tokens,omitzero"`
		MaxTokens     int64     `json:"max_tokens,omitzero"`
		Seed          *int64    `json:"seed,omitzero"`
		Temperature   *float64  `json:"temperature,omitzero"`
		Effort        string    `json:"reasoning_effort,omitzero"`
		Format        format    `json:"response_format,omitzero"`
		Stop          []string  `json:"stop,omitzero"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools  []chatTool `json:"tools,omitzero"`
		Stream bool       `json:"stream"`
	}
	if q.System != "" {
		r.Messages = append(r.Messages, message{q.System, "system"})
	}
	for _, x := range q.Examples {
		r.Messages = append(r.Messages, message{x.User, "user"}, message{x.Assistant, "assistant"})
	}
	r.Messages = append(r.Messages, message{chatContent(q), "user"})
	r.Model, r.Temperature, r.Effort, r.Stop = set.Model, set.Temperature, set.Effort, set.Stop
	if set.BaseURL == vendor {
		r.NewMaxTokens = set.MaxTokens
	} else {
		r.MaxTokens = set.MaxTokens
	}
	r.Seed = seed(set, q)
	for _, f := range functions(q.Tools) {
		r.Tools = append(r.Tools, chatTool{f, "function"})
	}
	if q.Form != nil {
		r.Format = format{schema{q.Form.Name, q.Form.Schema, true}, "json_schema"}
	}
	r.StreamOptions.IncludeUsage, r.Stream = true, true
	return r
}

// chatTool is a tool as Chat Completions has it.
type chatTool struct {
	Function function `json:"function"`
	Type     string   `json:"type"`
}

// chatContent is the user's text, or blocks with files.
func chatContent(q Question) any {
	if q.Parts == nil {
		return q.User
	}
	return contentOf(q.Parts, func(text string) any { return object{"text": text, "type": "text"} }, func(p harness.Part) any {
		if p.Type == picture.PDF {
			return object{"file": object{"file_data": dataURL(p), "filename": p.Name}, "type": "file"}
		}
		return object{"image_url": object{"url": dataURL(p)}, "type": "image_url"}
	})
}

// completion is an answer of Chat Completions, or a piece of one.
type completion struct {
	Model   string `json:"model"`
	Choices []struct {
		Delta   said   `json:"delta"`
		Message said   `json:"message"`
		Finish  string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Input        count `json:"prompt_tokens"`
		InputDetails struct {
			Cached count `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Output        count `json:"completion_tokens"`
		OutputDetails struct {
			Reasoning count `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
}

// said is a message, or a piece of one.
type said struct {
	Content upstream.Text `json:"content"`
	Refusal upstream.Text `json:"refusal"`
	// Servers add the reasoning under either of two names.
	Thought  upstream.Text `json:"reasoning_content"`
	Thinking upstream.Text `json:"reasoning"`
	Calls    []chatCall    `json:"tool_calls"`
}

// chatCall is a call of a tool, or a piece of one.
type chatCall struct {
	Index    *int64 `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      upstream.Text `json:"name"`
		Arguments upstream.Text `json:"arguments"`
	} `json:"function"`
}

// calls are those of a whole message.
func (m said) calls() []called {
	var out calls
	for _, c := range m.Calls {
		out.piece(nil, "", c.Function.Name, c.Function.Arguments)
	}
	return out.all()
}

func (c *completion) usage() Usage {
	u := &c.Usage
	return Usage{Input: int64(u.Input), Cached: int64(u.InputDetails.Cached), Output: int64(u.Output), Reasoning: int64(u.OutputDetails.Reasoning)}
}

// declines reports whether the model does, or a filter of the provider's.
func declines(m said, finish string) bool { return m.Refusal != "" || finish == contentFilter }

func wholeChat(body []byte) (Answer, bool) {
	var r completion
	if upstream.Decode(body, &r) != nil || len(r.Choices) == 0 || r.Choices[0].Finish == "" {
		return Answer{}, false
	}
	m, finish := r.Choices[0].Message, r.Choices[0].Finish
	return Answer{Text: string(m.Content + m.Refusal), Model: r.Model, Stop: finish, Usage: r.usage(),
		Declined: declines(m, finish), Reasoning: string(cmp.Or(m.Thought, m.Thinking)), calls: m.calls()}, true
}

func chatEvent(s *stream, data []byte) error {
	var chunk completion
	if err := upstream.Decode(data, &chunk); err != nil {
		return err
	}
	s.Model = cmp.Or(chunk.Model, s.Model)
	if u := chunk.usage(); u.Input > 0 || u.Output > 0 {
		s.Usage = u
	}
	for _, choice := range chunk.Choices {
		m := choice.Delta
		s.add(m.Content + m.Refusal)
		s.reasoning.WriteString(string(cmp.Or(m.Thought, m.Thinking)))
		for _, c := range m.Calls {
			s.pending.piece(c.Index, c.ID, c.Function.Name, c.Function.Arguments)
		}
		s.Stop = cmp.Or(choice.Finish, s.Stop)
		s.Declined = s.Declined || declines(m, choice.Finish)
	}
	s.complete = s.Stop != ""
	return nil
}
