package scripted

import (
	"cmp"
	"fmt"
)

// events returns the events of an answer, and the answer as one JSON value.
func (r *Request) events(t Turn, calls []call) ([]event, any) {
	text := t.Say
	if len(calls) == 0 && t.Refusal == "" {
		text = cmp.Or(text, "Done.")
	}
	u := Usage{Input: estimate(len(r.Body)), Output: estimate(len(text) + len(t.Refusal))}
	for _, c := range calls {
		u.Output += estimate(len(c.input))
	}
	if t.Usage != nil {
		u = *t.Usage
	}
	switch r.API {
	case messages:
		return r.messageEvents(text, t, calls, u)
	case chat:
		return r.chatEvents(text, t, calls, u)
	case gemini:
		return r.geminiEvents(text, t, calls, u)
	}
	return r.responseEvents(text, t, calls, u)
}

// id names a part of an answer. It carries the mark by which turns are counted.
func (r *Request) id(prefix string, n int) string {
	return fmt.Sprintf("%s_scripted-turn-%d-%d", prefix, r.Turn, n)
}

func (r *Request) responseEvents(text string, t Turn, calls []call, u Usage) ([]event, any) {
	response := func(status string, output []any) map[string]any {
		return map[string]any{"id": r.id("resp", 0), "object": "response", "created_at": r.At.Unix(), "status": status,
			"model": r.Model, "output": output}
	}
	s := &responseStream{r: r}
	s.add("response.created", event{"response": response("in_progress", []any{})})
	if text != "" {
		s.message("output_text", "text", text)
	}
	if t.Refusal != "" {
		s.message("refusal", "refusal", t.Refusal)
	}
	for _, c := range calls {
		s.call(c)
	}
	end := "completed"
	if t.Stop == stopLength {
		end = "incomplete"
	}
	whole := response(end, s.output)
	if t.Stop == stopLength {
		whole["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	}
	if !u.Omit {
		whole["usage"] = map[string]any{"input_tokens": u.Input, "input_tokens_details": map[string]any{"cached_tokens": u.Cached},
			"output_tokens": u.Output, "output_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Input + u.Output}
	}
	s.add("response."+end, event{"response": whole})
	return s.events, whole
}

// responseStream collects the events of an answer of the responses API.
type responseStream struct {
	r      *Request
	events []event
	output []any
}

func (s *responseStream) add(kind string, e event) {
	e["type"], e["sequence_number"] = kind, len(s.events)
	s.events = append(s.events, e)
}

// item adds an output item. between adds the events between its begin and end.
func (s *responseStream) item(begin, end map[string]any, between func(n int)) {
	n := len(s.output)
	s.add("response.output_item.added", event{"output_index": n, "item": begin})
	between(n)
	s.output = append(s.output, end)
	s.add("response.output_item.done", event{"output_index": n, "item": end})
}

// message adds a message of one part: a text, or a refusal.
func (s *responseStream) message(kind, field, text string) {
	id := fmt.Sprintf("msg_%d_%d", s.r.Turn, len(s.output))
	item := func(status string, content []any) map[string]any {
		return map[string]any{"type": "message", "id": id, "role": "assistant", "status": status, "content": content}
	}
	part := map[string]any{"type": kind, field: text}
	if kind == "output_text" {
		part["annotations"] = []any{}
	}
	s.item(item("in_progress", []any{}), item("completed", []any{part}), func(n int) {
		for _, piece := range pieces(text) {
			s.add("response."+kind+".delta", event{"item_id": id, "output_index": n, "content_index": 0, "delta": piece})
		}
		s.add("response."+kind+".done", event{"item_id": id, "output_index": n, "content_index": 0, field: text})
	})
}

func (s *responseStream) call(c call) {
	field, delta := "arguments", "response.function_call_arguments.delta"
	if c.kind == "custom_tool_call" {
		field, delta = "input", "response.custom_tool_call_input.delta"
	}
	id, callID := fmt.Sprintf("item_%d_%d", s.r.Turn, len(s.output)), s.r.id("call", len(s.output))
	item := func(status, input string) map[string]any {
		m := map[string]any{"type": c.kind, "id": id, "call_id": callID, "status": status}
		if c.kind == "local_shell_call" {
			m["action"] = jsonOf(c.input)
			return m
		}
		m["name"], m[field] = c.name, input
		if c.namespace != "" {
			m["namespace"] = c.namespace
		}
		return m
	}
	s.item(item("in_progress", ""), item("completed", c.input), func(n int) {
		if c.kind != "local_shell_call" {
			s.add(delta, event{"item_id": id, "output_index": n, "delta": c.input})
		}
	})
}

func (r *Request) messageEvents(text string, t Turn, calls []call, u Usage) ([]event, any) {
	s := &messageStream{}
	message := func(stop any, output int64) map[string]any {
		return u.messages(map[string]any{"id": fmt.Sprintf("msg_%d", r.Turn), "type": "message", "role": "assistant", "model": r.Model,
			"content": append([]any{}, s.content...), "stop_reason": stop, "stop_sequence": nil}, output)
	}
	s.events = append(s.events, event{"type": "message_start", "message": message(nil, min(u.Output, 1))})
	stop := "end_turn"
	switch {
	case t.Refusal != "":
		stop, text = "refusal", t.Refusal
	case t.Stop == stopLength:
		stop = "max_tokens"
	}
	if text != "" {
		block := func(text string) map[string]any { return map[string]any{"type": "text", "text": text} }
		s.block(block(""), block(text), "text_delta", "text", pieces(text))
	}
	for i, c := range calls {
		stop = "tool_use"
		block := func(input any) map[string]any {
			return map[string]any{"type": "tool_use", "id": r.id("toolu", i), "name": c.name, "input": input}
		}
		s.block(block(map[string]any{}), block(jsonOf(c.input)), "input_json_delta", "partial_json", []string{c.input})
	}
	s.events = append(s.events,
		event(u.messages(map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}}, u.Output)),
		event{"type": "message_stop"})
	return s.events, message(stop, u.Output)
}

// messages adds the usage to a message of the messages API.
func (u Usage) messages(to map[string]any, output int64) map[string]any {
	if !u.Omit {
		to["usage"] = map[string]any{"input_tokens": u.Input, "cache_creation_input_tokens": 0, "cache_read_input_tokens": u.Cached,
			"output_tokens": output, "output_tokens_details": map[string]any{"thinking_tokens": u.Reasoning}}
	}
	return to
}

// messageStream collects the events of an answer of the messages API.
type messageStream struct {
	events  []event
	content []any
}

// block adds a content block, from its begin over its deltas to its end.
func (s *messageStream) block(begin, end map[string]any, kind, field string, deltas []string) {
	n := len(s.content)
	s.events = append(s.events, event{"type": "content_block_start", "index": n, "content_block": begin})
	for _, d := range deltas {
		s.events = append(s.events, event{"type": "content_block_delta", "index": n, "delta": map[string]any{"type": kind, field: d}})
	}
	s.events = append(s.events, event{"type": "content_block_stop", "index": n})
	s.content = append(s.content, end)
}
