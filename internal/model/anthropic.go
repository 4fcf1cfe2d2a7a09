package model

import (
	"context"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// anthropicOptions are the options of Anthropic's client, which read nothing from
// the environment.
func (c *Client) anthropicOptions() []option.RequestOption {
	opts := []option.RequestOption{option.WithBaseURL(c.base("/")), option.WithHTTPClient(c.http), option.WithMaxRetries(0)}
	if c.key != "" {
		opts = append(opts, option.WithAPIKey(c.key))
	}
	return opts
}

// askMessages asks by the Messages API.
func askMessages(ctx context.Context, c *Client, q Question, say func(string)) (a Answer, err error) {
	p := anthropic.MessageNewParams{Model: c.set.Model, MaxTokens: c.set.MaxTokens, StopSequences: c.set.Stop,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(q.User))}}
	if q.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: q.System}}
	}
	if t := c.set.Temperature; t != nil {
		p.Temperature = anthropic.Float(*t)
	}
	p.OutputConfig.Effort = anthropic.OutputConfigEffort(c.set.Effort)
	service := anthropic.NewMessageService(c.anthropicOptions()...)
	stream := service.NewStreaming(ctx, p)
	defer stream.Close()
	var text, reasoning strings.Builder
	defer func() { a.Text, a.Reasoning = text.String(), reasoning.String() }()
	complete := false
	for stream.Next() {
		switch e := stream.Current(); e.Type {
		case "message_start":
			a.Model, a.Usage = e.Message.Model, startUsage(e.Message.Usage)
		case "content_block_delta":
			text.WriteString(e.Delta.Text)
			say(e.Delta.Text)
			reasoning.WriteString(e.Delta.Thinking)
		case "message_delta":
			a.Stop = string(e.Delta.StopReason)
			a.Declined = e.Delta.StopReason == anthropic.StopReasonRefusal
			a.Usage = deltaUsage(a.Usage, e.Usage)
		case "message_stop":
			complete = true
		}
	}
	return a, ended(stream.Err(), complete)
}

// startUsage is the usage at the begin of an answer. Anthropic's input does not
// include what was read from a cache or written to one.
func startUsage(u anthropic.Usage) Usage {
	return Usage{Input: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
		Cached: u.CacheReadInputTokens, Written: u.CacheCreationInputTokens, Output: u.OutputTokens}
}

// deltaUsage is the usage at its end, which may leave parts out.
func deltaUsage(was Usage, u anthropic.MessageDeltaUsage) Usage {
	is := Usage{Input: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
		Cached: u.CacheReadInputTokens, Written: u.CacheCreationInputTokens}
	if is.Input < was.Input {
		is = was
	}
	is.Output, is.Reasoning = u.OutputTokens, u.OutputTokensDetails.ThinkingTokens
	return is
}
