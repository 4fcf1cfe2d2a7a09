package events

import (
	"fmt"
	"strconv"
)

// The events that are read.
type (
	codexItemEvent struct {
		Item codexItem `json:"item"`
	}
	codexFailure struct {
		Error codexMessage `json:"error"`
	}
	codexMessage struct {
		Message string `json:"message"`
	}
)

// codexItem is something that the agent did.
type codexItem struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Message  string `json:"message"`
	Command  string `json:"command"`
	ExitCode *int64 `json:"exit_code"`
	Server   string `json:"server"`
	Tool     string `json:"tool"`
	Query    string `json:"query"`
	Changes  []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	} `json:"changes"`
}

// codexEvent reads a line of codex exec --json. Events of types that are not
// known are skipped.
func codexEvent(r *Reader, line []byte) bool {
	switch eventType(line) {
	case "":
		return false
	case "item.started":
		return take(line, func(e codexItemEvent) {
			if e.Item.Type == "command_execution" {
				r.emit("run", short(e.Item.Command, maxStarted), false)
			}
		})
	case "item.completed":
		return take(line, func(e codexItemEvent) { r.codexItem(e.Item) })
	case "turn.completed":
		r.say("", "turn complete")
	case "turn.failed":
		return take(line, func(e codexFailure) { r.say("error", e.Error.Message) })
	case "error":
		return take(line, func(e codexMessage) { r.say("error", e.Message) })
	}
	return true
}

// codexItem takes an item that is complete.
func (r *Reader) codexItem(it codexItem) {
	switch it.Type {
	case "agent_message":
		r.message(it.Text)
	case "command_execution": // its start was shown
		r.sum.Steps++
		code := "none"
		if it.ExitCode != nil {
			code = strconv.FormatInt(*it.ExitCode, 10)
		}
		r.emit("done", fmt.Sprintf("exit=%s %s", code, short(it.Command, maxFinished)), true)
	case "file_change":
		r.sum.Steps++
		for _, c := range it.Changes[:min(len(it.Changes), 100)] {
			r.emit("file", short(c.Kind+" "+c.Path, maxStarted), false)
		}
	case "mcp_tool_call", "collab_tool_call":
		r.call("tool", it.Server+" "+it.Tool)
	case "web_search":
		r.call("search", it.Query)
	case "error":
		r.say("error", it.Message)
	}
}
