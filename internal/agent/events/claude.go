package events

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// claudeTurn is an event with a message.
type claudeTurn struct {
	Message claudeMessage `json:"message"`
	// Parent is the tool call that a sub-agent works for.
	Parent *string `json:"parent_tool_use_id"`
}

// claudeEnd is the last event.
type claudeEnd struct {
	Subtype string `json:"subtype"`
	Result  string `json:"result"`
	IsError bool   `json:"is_error"`
}

// claudeMessage is one of the model's, or what tools returned to it.
type claudeMessage struct {
	Model   string         `json:"model"`
	Content jsontext.Value `json:"content"` // a text, or a list of blocks
}

type claudeBlock struct {
	Type    string         `json:"type"`
	Text    string         `json:"text"`
	Name    string         `json:"name"`
	Input   jsontext.Value `json:"input"`
	IsError bool           `json:"is_error"`
}

// synthetic is the model of messages that the program writes itself, to report
// an error of the provider.
const synthetic = "<synthetic>"

// claudeEvent reads a line of claude --output-format stream-json. Events of types
// that are not known are skipped.
func claudeEvent(r *Reader, line []byte) bool {
	switch eventType(line) {
	case "":
		return false
	case "assistant":
		return take(line, func(e claudeTurn) {
			for _, b := range e.Message.blocks() {
				r.claudeBlock(e, b)
			}
		})
	case "user":
		return take(line, func(e claudeTurn) {
			for _, b := range e.Message.blocks() {
				if b.Type == "tool_result" {
					r.emit("done", fmt.Sprintf("error=%t", b.IsError), true)
				}
			}
		})
	case "result":
		return take(line, r.claudeResult)
	}
	return true
}

// blocks returns the parts of a message, none if it is not a list of them.
func (m claudeMessage) blocks() (out []claudeBlock) {
	if m.Content.Kind() == '[' {
		out, _ = readAs[[]claudeBlock](m.Content)
	}
	return out
}

// claudeBlock takes a part of a message of the model.
func (r *Reader) claudeBlock(e claudeTurn, b claudeBlock) {
	switch {
	case b.Type == "text" && e.Message.Model == synthetic:
		r.say("error", b.Text)
	case b.Type == "text" && e.Parent != nil:
		r.sum.Steps++
		r.say("sub-agent", b.Text)
	case b.Type == "text":
		r.message(b.Text)
	case b.Type == "tool_use":
		in, _ := readAs[struct {
			Command string `json:"command"`
			File    string `json:"file_path"`
		}](b.Input)
		text := in.Command + in.File
		if text == "" {
			text = string(b.Input)
		}
		r.call("run", b.Name+" "+text)
	}
}

// claudeResult takes the last event. Its result is the last message of the main
// agent once more, unless the run failed.
func (r *Reader) claudeResult(e claudeEnd) {
	if e.IsError || e.Subtype != "success" {
		r.say("error", "ended with "+e.Subtype)
		return
	}
	if e.Result != "" {
		r.sum.Message = e.Result
	}
	r.say("", "turn complete")
}
