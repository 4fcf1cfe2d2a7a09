package model

import (
	"bytes"
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/upstream"
	"securebench/internal/picture"
)

// effort says how much to think.
type effort struct {
	Effort string `json:"effort"`
}

func askResponses(set harness.Model, q Question) any {
	type format struct {
		Name   string         `json:"name"`
		Schema jsontext.Value `json:"schema"`
		Strict bool           `json:"strict"`
		Type   string         `json:"type"`
	}
	type text struct {
		Format format `json:"format"`
	}
	var form text
	if q.Form != nil {
		form.Format = format{q.Form.Name, q.Form.Schema, true, "json_schema"}
	}
	return struct {
		Instructions string     `json:"instructions,omitzero"`
		MaxTokens    int64      `json:"max_output_tokens,omitzero"`
		Store        bool       `json:"store"`
		Temperature  *float64   `json:"temperature,omitzero"`
		Input        any        `json:"input"`
		Model        string     `json:"model"`
		Reasoning    effort     `json:"reasoning,omitzero"`
		Tools        []function `json:"tools,omitzero"`
		Stream       bool       `json:"stream"`
		Text         text       `json:"text,omitzero"`
	}{q.System, set.MaxTokens, false, set.Temperature, responsesInput(q), set.Model, effort{set.Effort}, responsesTools(q), true, form}
}

// responsesTools are the tools of a question. Without a word, this API would hold their
// schemas to rules that most do not keep.
func responsesTools(q Question) []function {
	out := functions(q.Tools)
	for i := range out {
		out[i].Type, out[i].Strict = "function", new(false)
	}
	return out
}

// responsesInput is the user's text, or messages with examples or files.
func responsesInput(q Question) any {
	if q.Parts == nil && q.Examples == nil {
		return q.User
	}
	said := func(content any, role string) any { return object{"content": content, "role": role, "type": "message"} }
	var messages []any
	for _, x := range q.Examples {
		messages = append(messages, said(x.User, "user"), said(x.Assistant, "assistant"))
	}
	if q.Parts == nil {
		return append(messages, said(q.User, "user"))
	}
	content := contentOf(q.Parts, func(text string) any { return object{"text": text, "type": "input_text"} }, func(p harness.Part) any {
		if p.Type == picture.PDF {
			return object{"file_data": dataURL(p), "filename": p.Name, "type": "input_file"}
		}
		return object{"image_url": dataURL(p), "type": "input_image"}
	})
	return append(messages, said(content, "user"))
}

// outputItem is a part of an answer.
type outputItem struct {
	Type    string `json:"type"`
	Content []struct {
		Type    string        `json:"type"`
		Text    upstream.Text `json:"text"`
		Refusal upstream.Text `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text upstream.Text `json:"text"`
	} `json:"summary"`
	// Of a call of a tool.
	Name      upstream.Text `json:"name"`
	Arguments upstream.Text `json:"arguments"`
}

// functionCall is the type of an item that calls a tool.
const functionCall = "function_call"

// response is an answer of the Responses API.
type response struct {
	Status     string       `json:"status"`
	Model      string       `json:"model"`
	Output     []outputItem `json:"output"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage struct {
		Input        count `json:"input_tokens"`
		InputDetails struct {
			Cached  count `json:"cached_tokens"`
			Written count `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		Output        count `json:"output_tokens"`
		OutputDetails struct {
			Reasoning count `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

// contentFilter is why an answer ends that the provider does not let pass.
const contentFilter = "content_filter"

func (r *response) answer() Answer {
	u := &r.Usage
	a := Answer{Model: r.Model, Stop: cmp.Or(r.Incomplete.Reason, r.Status), Declined: r.Incomplete.Reason == contentFilter,
		Usage: Usage{Input: int64(u.Input), Cached: int64(u.InputDetails.Cached), Written: int64(u.InputDetails.Written), Output: int64(u.Output), Reasoning: int64(u.OutputDetails.Reasoning)}}
	refusal := upstream.Text("")
	for _, item := range r.Output {
		if item.Type == functionCall {
			a.calls = append(a.calls, called{string(item.Name), string(item.Arguments)})
		}
		for _, part := range item.Content {
			if part.Type == "output_text" {
				a.Text += string(part.Text)
			}
			refusal += part.Refusal
		}
		for _, part := range item.Summary {
			a.Reasoning += string(part.Text)
		}
	}
	a.Text, a.Declined = a.Text+string(refusal), a.Declined || refusal != ""
	return a
}

func wholeResponse(body []byte) (Answer, bool) {
	var r response
	ok := upstream.Decode(body, &r) == nil && (r.Status == "completed" || r.Status == "incomplete")
	return r.answer(), ok
}

func responseEvent(s *stream, data []byte) error {
	var e struct {
		Type     string        `json:"type"`
		Delta    upstream.Text `json:"delta"`
		Response response      `json:"response"`
		Item     outputItem    `json:"item"`
	}
	if err := upstream.Decode(data, &e); err != nil {
		return err
	}
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		s.Declined = s.Declined || e.Type == "response.refusal.delta"
		s.add(e.Delta)
	case "response.output_item.done": // for servers that end with less than all of it
		if e.Item.Type == functionCall {
			s.pending.piece(nil, "", e.Item.Name, e.Item.Arguments)
		}
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		s.reasoning.WriteString(string(e.Delta))
	case "response.completed", "response.incomplete":
		was := s.Answer
		s.Answer, s.complete = e.Response.answer(), true
		s.Declined = s.Declined || was.Declined
	case "response.failed":
		return &eventError{bytes.Clone(data)}
	}
	return nil
}
