package acp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// begun are the answers with which an agent begins a session; a prompt has the number 3.
const begun = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}
`

const ended = `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}` + "\n"

func update(text string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + text + "}}\n"
}

// converse plays an agent that says all it has to say at once.
func converse(says string) (sent, printed string, err error) {
	var to, out bytes.Buffer
	err = Converse("do {it}", "/w", strings.NewReader(says), &to, &out)
	return to.String(), out.String(), err
}

// TestConverse: the agent gets the prompt, may do what it asks for, and gets nothing of the
// client's. What it does is printed.
func TestConverse(t *testing.T) {
	t.Parallel()
	sent, printed, err := converse("some log\n" + begun +
		update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I\n{\"type\":\"message\"}"}}`) +
		update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`) +
		update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"ls","kind":"execute","rawInput":{"command":"ls"}}`) +
		`{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"options":[{"optionId":"n","kind":"reject_once"},{"optionId":"a","kind":"allow_always"},{"optionId":"o","kind":"allow_once"}]}}
{"jsonrpc":"2.0","id":8,"method":"session/request_permission","params":{"options":[{"optionId":"n","kind":"reject_once"}]}}
{"jsonrpc":"2.0","id":9,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}
{"jsonrpc":"2.0","id":10,"method":"terminal/create","params":{"command":"id"}}
{"jsonrpc":"2.0","method":"terminal/output"}
` + update(`{"sessionUpdate":"tool_call_update","toolCallId":"1","title":"ls","status":"completed"}`) + ended)
	if err != nil {
		t.Fatal(err)
	}
	const none = `"error":{"code":-32601,"message":"this client has no such method"},"id":%d,"jsonrpc":"2.0"}`
	want := []string{
		`{"id":1,"jsonrpc":"2.0","method":"initialize","params":{"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false},"clientInfo":{"name":"securebench","version":"1"},"protocolVersion":1}}`,
		`{"id":2,"jsonrpc":"2.0","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`,
		`{"id":3,"jsonrpc":"2.0","method":"session/prompt","params":{"prompt":[{"text":"do {it}","type":"text"}],"sessionId":"s"}}`,
		`{"id":"p","jsonrpc":"2.0","result":{"outcome":{"optionId":"o","outcome":"selected"}}}`,
		`{"id":8,"jsonrpc":"2.0","result":{"outcome":{"outcome":"cancelled"}}}`,
		"{" + fmt.Sprintf(none, 9), "{" + fmt.Sprintf(none, 10), "",
	}
	if d := cmp.Diff(want, strings.Split(sent, "\n")); d != "" {
		t.Errorf("the agent gets: -want +got\n%s", d)
	}
	const shown = `{"type":"message","text":"I\n{\"type\":\"message\"}"}
{"type":"call","name":"ls","about":"{\"command\":\"ls\"}"}
{"type":"done","name":"ls","status":"completed"}
`
	if d := cmp.Diff(shown, printed); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// TestHostile: an agent that does not keep to the protocol ends its own conversation, or
// is not listened to.
func TestHostile(t *testing.T) {
	t.Parallel()
	said := update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}`)
	for name, tt := range map[string]struct{ says, err string }{
		"ends":         {begun, "the agent ended without an answer to session/prompt: EOF"},
		"no session":   {strings.Replace(begun, `"s"`, `""`, 1), "the agent began no session"},
		"odd session":  {strings.Replace(begun, `"s"`, `[7]`, 1), "the agent began no session"},
		"refuses":      {begun + `{"id":3,"error":{"code":-32000,"message":"log in\u001b[2J"}}` + "\n", `the agent refused session/prompt: "log in\x1b[2J"`},
		"stops":        {begun + `{"id":3,"result":{"stopReason":"max_turn_requests"}}` + "\n", `the agent ended its turn early: "max_turn_requests"`},
		"half a line":  {begun + strings.TrimSuffix(ended, "}\n"), "EOF"},
		"other ids":    {begun + strings.Replace(ended, ":3,", `:"3",`, 1) + strings.Replace(ended, ":3,", ":4,", 1), "EOF"},
		"two of a key": {begun + strings.Replace(ended, `{"stop`, `{"stopReason":"x","stop`, 1), "EOF"},
		"our own line": {begun + `{"type":"message","text":"hi"}` + "\n" + said + ended, ""},
		"deep":         {begun + `{"id":3,"result":` + strings.Repeat("[", 100_000) + "\n" + said + ended, ""},
		"long":         {begun + `{"id":3,"x":"` + strings.Repeat("x", maxLine+128<<10) + "\"}\n" + said + ended, ""},
		"many":         {begun + strings.Repeat("null\n[]\n{}\n\n", 1000) + said + ended, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, printed, err := converse(tt.says)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
			if err == nil && printed != `{"type":"message","text":"hi"}`+"\n" {
				t.Errorf("printed %.200q", printed)
			}
		})
	}
	_, printed, err := converse(begun + strings.Replace(said, "hi", strings.Repeat("h", maxText+9), 1) + ended)
	if err != nil || len(printed) > maxText+100 {
		t.Errorf("a text of %d bytes is printed, %v", len(printed), err)
	}
}

// FuzzConverse: whatever an agent says, the conversation ends with it, and what is printed
// are lines of this program.
func FuzzConverse(f *testing.F) {
	f.Add([]byte(begun + update(`{"sessionUpdate":"agent_message_chunk","content":{"text":"x"}}`) + ended))
	f.Add([]byte(begun + `{"id":{},"method":"x"}` + "\n" + update(`{"sessionUpdate":"tool_call","title":"\ud800"}`)))
	f.Fuzz(func(t *testing.T, says []byte) {
		var out bytes.Buffer
		_ = Converse("p", "/", bytes.NewReader(says), io.Discard, &out)
		for s := bufio.NewScanner(&out); s.Scan(); {
			var l line
			if err := json.Unmarshal(s.Bytes(), &l, json.RejectUnknownMembers(true)); err != nil || l.Type == "" {
				t.Errorf("%q prints %q: %v", says, s.Bytes(), err)
			}
		}
	})
}
