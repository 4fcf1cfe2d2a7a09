package model

import (
	"cmp"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// unread is the error of a JSON text that is no answer: an error that the provider
// tells as if it were one, or another form.
func unread(whole []byte) error {
	var e struct {
		Error jsontext.Value `json:"error"`
	}
	if json.Unmarshal(whole, &e, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil && len(e.Error) > 0 && e.Error.Kind() != 'n' {
		return &eventError{whole}
	}
	return &formError{"JSON that is no answer of the API"}
}

// readResponse reads an answer of the Responses API.
func readResponse(whole []byte) (a Answer, err error) {
	var r responses.Response
	if r.UnmarshalJSON(whole) != nil || r.Status != "completed" && r.Status != "incomplete" {
		return a, unread(whole)
	}
	a = Answer{Text: r.OutputText(), Model: r.Model, Usage: responsesUsage(r.Usage),
		Stop: cmp.Or(r.IncompleteDetails.Reason, string(r.Status)), Declined: r.IncompleteDetails.Reason == contentFilter}
	for _, item := range r.Output {
		for _, part := range item.Content {
			a.Declined = a.Declined || part.Refusal != ""
			a.Text += part.Refusal
		}
		for _, part := range item.Summary {
			a.Reasoning += part.Text
		}
	}
	return a, nil
}

// readChat reads an answer of Chat Completions.
func readChat(whole []byte) (a Answer, err error) {
	var r openai.ChatCompletion
	if r.UnmarshalJSON(whole) != nil || len(r.Choices) == 0 || r.Choices[0].FinishReason == "" {
		return a, unread(whole)
	}
	c := r.Choices[0]
	return Answer{Text: c.Message.Content + c.Message.Refusal, Model: r.Model, Stop: c.FinishReason, Usage: chatUsage(r.Usage),
		Declined: c.Message.Refusal != "" || c.FinishReason == contentFilter, Reasoning: reasoningIn(c.Message.RawJSON())}, nil
}

// reasoningIn returns the reasoning that servers of Chat Completions add to a message
// or a piece of one, under either of two names.
func reasoningIn(message string) string {
	if !strings.Contains(message, `"reasoning`) {
		return ""
	}
	var m struct {
		Content jsontext.Value `json:"reasoning_content"`
		Plain   jsontext.Value `json:"reasoning"`
	}
	if json.Unmarshal([]byte(message), &m, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return ""
	}
	for _, v := range []jsontext.Value{m.Content, m.Plain} {
		if text, err := jsontext.AppendUnquote(nil, v); err == nil && len(text) > 0 {
			return string(text)
		}
	}
	return ""
}

// readMessage reads an answer of the Messages API.
func readMessage(whole []byte) (a Answer, err error) {
	var m anthropic.Message
	if m.UnmarshalJSON(whole) != nil || m.StopReason == "" {
		return a, unread(whole)
	}
	a = Answer{Model: m.Model, Stop: string(m.StopReason), Usage: startUsage(m.Usage), Declined: m.StopReason == anthropic.StopReasonRefusal}
	for _, block := range m.Content {
		a.Text += block.Text
		a.Reasoning += block.Thinking
	}
	return a, nil
}
