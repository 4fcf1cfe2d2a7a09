package model

import (
	"cmp"
	"context"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// openAI returns the options of OpenAI's client. It reads nothing from the
// environment: how a run asks is what its configuration says.
func (c *Client) openAI() []option.RequestOption {
	opts := []option.RequestOption{option.WithBaseURL(c.base("/v1")), option.WithHTTPClient(c.http), option.WithMaxRetries(0)}
	if c.key != "" {
		opts = append(opts, option.WithAPIKey(c.key))
	}
	return opts
}

// askResponses asks by the Responses API.
func askResponses(ctx context.Context, c *Client, q Question, say func(string)) (a Answer, err error) {
	p := responses.ResponseNewParams{Model: c.set.Model, Store: openai.Bool(false)}
	p.Input.OfString = openai.String(q.User)
	if q.System != "" {
		p.Instructions = openai.String(q.System)
	}
	if t := c.set.Temperature; t != nil {
		p.Temperature = openai.Float(*t)
	}
	if n := c.set.MaxTokens; n > 0 {
		p.MaxOutputTokens = openai.Int(n)
	}
	p.Reasoning.Effort = shared.ReasoningEffort(c.set.Effort)
	service := responses.NewResponseService(c.openAI()...)
	stream := service.NewStreaming(ctx, p)
	defer stream.Close()
	var text, reasoning strings.Builder
	defer func() { a.Text, a.Reasoning = cmp.Or(a.Text, text.String()), reasoning.String() }()
	complete := false
	for stream.Next() {
		switch e := stream.Current(); e.Type {
		case "response.output_text.delta", "response.refusal.delta":
			a.Declined = a.Declined || e.Type == "response.refusal.delta"
			text.WriteString(e.Delta)
			say(e.Delta)
		case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
			reasoning.WriteString(e.Delta)
		case "response.completed", "response.incomplete":
			complete = true
			a.Text, a.Model, a.Usage = e.Response.OutputText(), e.Response.Model, responsesUsage(e.Response.Usage)
			a.Stop = cmp.Or(e.Response.IncompleteDetails.Reason, string(e.Response.Status))
			a.Declined = a.Declined || e.Response.IncompleteDetails.Reason == contentFilter
		case "response.failed", "error":
			return a, &eventError{[]byte(e.RawJSON())}
		}
	}
	return a, ended(stream.Err(), complete)
}

// contentFilter is why an answer ends that the provider does not let pass.
const contentFilter = "content_filter"

func responsesUsage(u responses.ResponseUsage) Usage {
	return Usage{Input: u.InputTokens, Cached: u.InputTokensDetails.CachedTokens, Written: u.InputTokensDetails.CacheWriteTokens,
		Output: u.OutputTokens, Reasoning: u.OutputTokensDetails.ReasoningTokens}
}

// vendor is where the name of a bound on tokens is a new one, which other servers
// do not all know.
const vendor = "https://api.openai.com"

// askChat asks by Chat Completions.
func askChat(ctx context.Context, c *Client, q Question, say func(string)) (a Answer, err error) {
	p := openai.ChatCompletionNewParams{Model: c.set.Model, ReasoningEffort: shared.ReasoningEffort(c.set.Effort)}
	if q.System != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(q.System))
	}
	p.Messages = append(p.Messages, openai.UserMessage(q.User))
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	if t := c.set.Temperature; t != nil {
		p.Temperature = openai.Float(*t)
	}
	switch n := c.set.MaxTokens; {
	case n > 0 && c.set.BaseURL == vendor:
		p.MaxCompletionTokens = openai.Int(n)
	case n > 0:
		p.MaxTokens = openai.Int(n)
	}
	if s := c.set.Seed; s != nil { // attempts are independent samples
		p.Seed = openai.Int(*s + int64(q.Attempt) - 1)
	}
	p.Stop.OfStringArray = c.set.Stop
	service := openai.NewChatCompletionService(c.openAI()...)
	stream := service.NewStreaming(ctx, p)
	defer stream.Close()
	var text, reasoning strings.Builder
	defer func() { a.Text, a.Reasoning = text.String(), reasoning.String() }()
	for stream.Next() {
		chunk := stream.Current()
		a.Model = cmp.Or(chunk.Model, a.Model)
		if u := chunk.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
			a.Usage = chatUsage(u)
		}
		for _, choice := range chunk.Choices {
			piece := choice.Delta.Content + choice.Delta.Refusal
			text.WriteString(piece)
			say(piece)
			reasoning.WriteString(reasoningIn(choice.Delta.RawJSON()))
			a.Stop = cmp.Or(choice.FinishReason, a.Stop)
			a.Declined = a.Declined || choice.Delta.Refusal != "" || choice.FinishReason == contentFilter
		}
	}
	return a, ended(stream.Err(), a.Stop != "")
}

func chatUsage(u openai.CompletionUsage) Usage {
	return Usage{Input: u.PromptTokens, Cached: u.PromptTokensDetails.CachedTokens, Output: u.CompletionTokens,
		Reasoning: u.CompletionTokensDetails.ReasoningTokens}
}
