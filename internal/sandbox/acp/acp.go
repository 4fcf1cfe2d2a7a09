// Package acp is the client of an agent that speaks the agent client protocol. It runs
// in the agent's sandbox, as the agent's user, beside the agent: it gives it one prompt,
// allows what it asks for, and prints what it does as lines of JSON, which are read like
// the output of any agent. Nothing that an agent sends is trusted by anybody: what
// this program prints counts for no more than what the agent itself could print.
//
// The agent gets no files and no terminal of the client's: it has those of its sandbox.
package acp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxLine bounds a message; a longer one is left out.
	maxLine = 8 << 20
	// maxText bounds what is printed of a text.
	maxText = 1 << 20
	// farewell is how long an agent may take to end after its input has.
	farewell = 20 * time.Second
)

// line is what is printed of an agent's work.
type line struct {
	Type   string `json:"type"` // message, call, done or error
	Text   string `json:"text,omitzero"`
	Name   string `json:"name,omitzero"`
	About  string `json:"about,omitzero"`
	Status string `json:"status,omitzero"`
}

// Run starts an agent in the current folder, gives it a prompt, and returns when it has
// done its turn. What it does is printed to out, and its standard error to complaints. Its error is why it did not end its turn by itself.
func Run(ctx context.Context, prompt string, command []string, out, complaints io.Writer) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the current folder: %w", err)
	}
	agent := exec.CommandContext(ctx, command[0], command[1:]...)
	agent.Stderr, agent.WaitDelay = complaints, time.Second
	in, err := agent.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting the agent: %w", err)
	}
	says, err := agent.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting the agent: %w", err)
	}
	if err := agent.Start(); err != nil {
		return fmt.Errorf("starting the agent: %w", err)
	}
	err = Converse(prompt, dir, says, in, out)
	_ = in.Close() // by which it knows that it should end
	gone := time.AfterFunc(farewell, func() { _ = agent.Process.Kill() })
	defer gone.Stop()
	go func() { _, _ = io.Copy(io.Discard, says) }() // until it, or Wait, closes this
	if ended := agent.Wait(); err != nil && ended != nil {
		return fmt.Errorf("%w (%w)", err, ended)
	}
	return err
}

// message is one of the protocol: a request, an answer or a note.
type message struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  *problem       `json:"error,omitzero"`
}

// problem is why there is no result.
type problem struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// client is the client's end of a conversation.
type client struct {
	from  *bufio.Reader
	to    io.Writer
	out   io.Writer
	asked int
}

// Converse gives the agent at the other end of two streams a prompt, and returns when its
// turn has ended.
func Converse(prompt, dir string, from io.Reader, to, out io.Writer) error {
	c := &client{from: bufio.NewReaderSize(from, 64<<10), to: to, out: out}
	type object = map[string]any
	if _, err := c.call("initialize", object{"protocolVersion": 1, "clientInfo": object{"name": "securebench", "version": "1"},
		"clientCapabilities": object{"fs": object{"readTextFile": false, "writeTextFile": false}, "terminal": false}}); err != nil {
		return err
	}
	made, err := c.call("session/new", object{"cwd": dir, "mcpServers": []any{}})
	if err != nil {
		return err
	}
	var session struct {
		ID string `json:"sessionId"`
	}
	if json.Unmarshal(made, &session) != nil || session.ID == "" {
		return errors.New("the agent began no session")
	}
	ended, err := c.call("session/prompt", object{"sessionId": session.ID, "prompt": []any{object{"type": "text", "text": prompt}}})
	if err != nil {
		return err
	}
	var turn struct {
		Why string `json:"stopReason"`
	}
	if json.Unmarshal(ended, &turn) != nil || turn.Why != "end_turn" {
		return fmt.Errorf("the agent ended its turn early: %.60q", turn.Why)
	}
	return nil
}

// call makes a request, and serves the agent until it answers.
func (c *client) call(method string, params any) (jsontext.Value, error) {
	c.asked++
	id := fmt.Sprint(c.asked)
	if err := c.send(map[string]any{"id": c.asked, "method": method, "params": params}); err != nil {
		return nil, err
	}
	for {
		m, err := c.read()
		switch {
		case err != nil:
			return nil, fmt.Errorf("the agent ended without an answer to %s: %w", method, err)
		case m.Method != "":
			if err := c.serve(m); err != nil {
				return nil, err
			}
		case string(m.ID) != id: // an answer to nothing
		case m.Error != nil:
			c.print(line{Type: "error", Text: m.Error.Message})
			return nil, fmt.Errorf("the agent refused %s: %.300q", method, m.Error.Message)
		default:
			return m.Result, nil
		}
	}
}

// send writes a message.
func (c *client) send(m map[string]any) error {
	m["jsonrpc"] = "2.0"
	text, err := json.Marshal(m, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err == nil {
		_, err = c.to.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing to the agent: %w", err)
	}
	return nil
}

// read returns the next message. Lines that are none, as programs print them, and those
// that are too long are left out.
func (c *client) read() (m message, err error) {
	for {
		text, err := c.line()
		if err != nil {
			return m, err
		}
		if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
			if m = (message{}); json.Unmarshal(text, &m) == nil {
				return m, nil
			}
		}
	}
}

// line returns the next line that is not too long.
func (c *client) line() (text []byte, err error) {
	for long := false; ; {
		part, err := c.from.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if long = long || len(text)+len(part) > maxLine; long {
				text = nil
				continue
			}
			text = append(text, part...)
		case err != nil:
			return nil, err
		case long:
			long = false
		default:
			return append(text, part...), nil
		}
	}
}

// serve answers a request of the agent's, and prints what it does.
func (c *client) serve(m message) error {
	if m.Method == "session/update" {
		c.update(m.Params)
	}
	if len(m.ID) == 0 || string(m.ID) == "null" {
		return nil
	}
	if m.Method == "session/request_permission" {
		return c.send(map[string]any{"id": m.ID, "result": map[string]any{"outcome": allow(m.Params)}})
	}
	return c.send(map[string]any{"id": m.ID, "error": problem{-32601, "this client has no such method"}})
}

// allow chooses the answer that allows what an agent asks for, once if it can.
func allow(params jsontext.Value) map[string]any {
	var p struct {
		Options []struct {
			ID   string `json:"optionId"`
			Kind string `json:"kind"`
		} `json:"options"`
	}
	_ = json.Unmarshal(params, &p) // without options there is none
	for _, kind := range []string{"allow_once", "allow_always"} {
		for _, o := range p.Options {
			if o.Kind == kind {
				return map[string]any{"outcome": "selected", "optionId": o.ID}
			}
		}
	}
	return map[string]any{"outcome": "cancelled"}
}

// update prints what an agent does.
func (c *client) update(params jsontext.Value) {
	var p struct {
		Update struct {
			Kind    string         `json:"sessionUpdate"`
			Content jsontext.Value `json:"content"`
			Title   string         `json:"title"`
			Tool    string         `json:"kind"`
			Status  string         `json:"status"`
			Input   jsontext.Value `json:"rawInput"`
		} `json:"update"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	switch u := p.Update; u.Kind {
	case "agent_message_chunk":
		var block struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(u.Content, &block) == nil && block.Text != "" {
			c.print(line{Type: "message", Text: block.Text})
		}
	case "tool_call":
		c.print(line{Type: "call", Name: u.Title, About: string(u.Input)})
	case "tool_call_update":
		if u.Status == "completed" || u.Status == "failed" {
			c.print(line{Type: "done", Name: u.Title, Status: u.Status})
		}
	}
}

// print writes a line. What cannot be written is lost, as an agent's output is.
func (c *client) print(l line) {
	for _, text := range []*string{&l.Text, &l.Name, &l.About} {
		if len(*text) > maxText {
			*text = (*text)[:maxText]
		}
	}
	text, err := json.Marshal(l, jsontext.AllowInvalidUTF8(true))
	if err == nil {
		_, _ = c.out.Write(append(text, '\n'))
	}
}
