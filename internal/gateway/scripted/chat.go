package scripted

import "cmp"

// chatEvents returns the chunks of an answer of chat Completions.
func (r *Request) chatEvents(text string, t Turn, calls []call, u Usage) ([]event, any) {
	var events []event
	chunk := func(delta map[string]any, finish any) {
		events = append(events, r.completion("chat.completion.chunk",
			[]any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}))
	}
	chunk(map[string]any{"role": "assistant"}, nil)
	for _, piece := range pieces(text) {
		chunk(map[string]any{"content": piece}, nil)
	}
	for _, piece := range pieces(t.Refusal) {
		chunk(map[string]any{"refusal": piece}, nil)
	}
	finish := cmp.Or(t.Stop, "stop")
	message := map[string]any{"role": "assistant", "content": text}
	if t.Refusal != "" {
		message["content"], message["refusal"] = nil, t.Refusal
	}
	if len(calls) > 0 {
		finish = "tool_calls"
		message["tool_calls"] = r.chatCalls(calls, false)
		chunk(map[string]any{"tool_calls": r.chatCalls(calls, true)}, nil)
	}
	chunk(map[string]any{}, finish)
	whole := r.completion("chat.completion", []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}})
	if !u.Omit {
		usage := map[string]any{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
			"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached},
			"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning}}
		whole["usage"] = usage
		if !r.unbilled {
			last := r.completion("chat.completion.chunk", []any{})
			last["usage"] = usage
			events = append(events, last)
		}
	}
	return append(events, nil), map[string]any(whole)
}

// completion is the frame of an answer, or of a part of one.
func (r *Request) completion(object string, choices []any) event {
	return event{"id": r.id("chatcmpl", 0), "object": object, "created": r.At.Unix(), "model": r.Model, "choices": choices}
}

// chatCalls are calls of functions, which are numbered in a stream.
func (r *Request) chatCalls(calls []call, numbered bool) []any {
	var out []any
	for i, c := range calls {
		item := map[string]any{"id": r.id("call", i), "type": "function", "function": map[string]any{"name": c.name, "arguments": c.input}}
		if numbered {
			item["index"] = i
		}
		out = append(out, item)
	}
	return out
}
