package scripted

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// serve serves a script.
func serve(t *testing.T, script string) (*Server, string) {
	t.Helper()
	s, err := Parse("script.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	server := New(s, nil)
	over := httptest.NewServer(server)
	t.Cleanup(over.Close)
	return server, over.URL
}

// client is an honest agent without a mind: it sends what it was sent back.
type client struct {
	t       *testing.T
	base    string
	api     API
	tools   string // JSON
	prompt  string
	key     string
	history []any
}

// send sends a request and returns its answer's events, whose types are checked.
func (c *client) send() (reply, []map[string]any) {
	c.t.Helper()
	body := map[string]any{"model": "m", "stream": true}
	url := c.base + "/v1/responses"
	if c.api == messages {
		url = c.base + "/v1/messages?beta=true"
		body["messages"], body["max_tokens"] = append([]any{map[string]any{"role": "user", "content": c.prompt}}, c.history...), 1000
	} else {
		body["input"] = append([]any{map[string]any{"type": "message", "role": "user", "content": c.prompt}}, c.history...)
	}
	if c.tools != "" && c.tools[0] == '{' { // an item of the input
		body["input"] = append([]any{jsonOf(c.tools)}, body["input"].([]any)...)
	} else if c.tools != "" {
		body["tools"] = jsonOf(c.tools)
	}
	got := request(c.t, http.MethodPost, url, c.key, object(body))
	return got, readEvents(c.t, bytes.NewReader(got.body))
}

// reply is what a request got. Its error is that of the connection.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

func request(t *testing.T, method, url, key, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, all, err}
}

// readEvents reads the events of a stream until it ends, however it does.
func readEvents(t *testing.T, in io.Reader) []map[string]any {
	t.Helper()
	var out []map[string]any
	name := ""
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = kind
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e map[string]any
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			if e["type"] != name {
				t.Errorf("event %s has the type %v", name, e["type"])
			}
			out = append(out, e)
		}
	}
	return out
}

// calls returns the tool calls of an answer, and answers them.
func (c *client) calls(events []map[string]any) []map[string]any {
	var out []map[string]any
	partial := ""
	for _, e := range events {
		switch e["type"] {
		case "response.output_item.done":
			item := e["item"].(map[string]any)
			c.history = append(c.history, item)
			if kind := item["type"].(string); kind != "message" {
				c.history = append(c.history, map[string]any{"type": kind + "_output", "call_id": item["call_id"], "output": "ok"})
				out = append(out, item)
			}
		case "content_block_start":
			if block := e["content_block"].(map[string]any); block["type"] == "tool_use" {
				out = append(out, block)
				c.history = append(c.history, map[string]any{"role": "assistant", "content": []any{block}},
					map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": block["id"], "content": "ok"}}})
			}
		case "content_block_delta":
			if part, ok := e["delta"].(map[string]any)["partial_json"].(string); ok {
				partial += part
				out[len(out)-1]["input"] = jsonOf(partial)
				partial = ""
			}
		}
	}
	return out
}

// text is what an answer says.
func text(events []map[string]any) string {
	var out strings.Builder
	for _, e := range events {
		switch delta := e["delta"].(type) {
		case string:
			if e["type"] == "response.output_text.delta" {
				out.WriteString(delta)
			}
		case map[string]any:
			part, _ := delta["text"].(string)
			out.WriteString(part)
		}
	}
	return out.String()
}

// dialects are the ways in which agents declare their tools.
var dialects = []struct {
	name  string
	api   API
	tools string
	want  []string // of each call: its type, name and a part of its input
}{
	{"plain", responses, `[{"type":"function","name":"exec_command"},{"type":"custom","name":"apply_patch"}]`, []string{
		`function_call exec_command {"cmd":"ls"`, `function_call exec_command {"cmd":"mkdir`, `custom_tool_call apply_patch *** Begin Patch`}},
	{"plain without patches", responses, `[{"type":"function","name":"exec_command"}]`, []string{
		`function_call exec_command {"cmd":"ls"`, `function_call exec_command {"cmd":"mkdir`, `function_call exec_command {"cmd":"apply_patch <<`}},
	{"code mode", responses, `{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]}]}`, []string{
		`custom_tool_call exec const result = await tools.exec_command({"cmd":"ls"`, `custom_tool_call exec const result = await tools.exec_command({"cmd":"mkdir`,
		`custom_tool_call exec const result = await tools.apply_patch("*** Begin Patch\n*** Update File: f\n@@\n-a\n+b`}},
	{"shell", responses, `[{"type":"function","name":"shell"},{"type":"custom","name":"apply_patch"}]`, []string{
		`function_call shell {"command":["bash","-lc","ls"]}`, `function_call shell {"command":["bash","-lc","mkdir`, `custom_tool_call apply_patch ***`}},
	{"local shell", responses, `[{"type":"local_shell"},{"type":"custom","name":"apply_patch"}]`, []string{
		`local_shell_call <nil> {"command":["bash","-lc","ls"],"type":"exec"}`, `local_shell_call <nil> {"command":["bash","-lc","mkdir`, `custom_tool_call apply_patch ***`}},
	{"claude", messages, `[{"name":"Bash"},{"name":"Write"},{"name":"Edit"}]`, []string{
		`tool_use Bash {"command":"ls"`, `tool_use Write {"content":"a\n","file_path":"f"}`, `tool_use Edit {"file_path":"f","new_string":"b\n","old_string":"a\n"}`}},
}

const threeTurns = `
turns:
  - {say: First., run: ls}
  - write: {path: f, content: "a\n"}
  - edit: {path: f, old: "a\n", new: "b\n"}
  - {say: All done.}
`

// TestDialects: a script becomes calls of the tools that each agent has.
func TestDialects(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			server, base := serve(t, threeTurns)
			c := &client{t: t, base: base, api: d.api, tools: d.tools, prompt: "go", key: "k"}
			for i, want := range d.want {
				_, events := c.send()
				calls := c.calls(events)
				if len(calls) != 1 {
					t.Fatalf("turn %d has %d calls", i+1, len(calls))
				}
				call := calls[0]
				input := ""
				for _, field := range []string{"input", "arguments", "action"} {
					if s, ok := call[field].(string); ok {
						input = s
					} else if call[field] != nil {
						input = object(call[field])
					}
				}
				if got := fmt.Sprintf("%v %v %s", call["type"], call["name"], input); !strings.HasPrefix(got, want) {
					t.Errorf("turn %d: %s, want %s", i+1, got, want)
				}
			}
			_, events := c.send()
			if got := text(events); got != "All done." {
				t.Errorf("the last word is %q", got)
			}
			if _, again := c.send(); text(again) != "All done." {
				t.Errorf("a repeated request gets %q", text(again))
			}
			if n := len(server.Requests()); n != 5 {
				t.Errorf("%d requests were recorded", n)
			}
		})
	}
}

// TestGemini: a script becomes functions of Gemini's API, streamed and whole, whose turns
// are counted by the calls that come back.
func TestGemini(t *testing.T) {
	server, base := serve(t, "key: right\nmodels: [m]\n"+threeTurns)
	contents := []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": "go"}}}}
	ask := func(action string) map[string]any {
		body := object(map[string]any{"contents": contents, "tools": []any{map[string]any{"functionDeclarations": []any{map[string]any{"name": "run_shell_command"}}}}})
		got := request(t, http.MethodPost, base+"/v1beta/models/m:"+action, "", body, "X-Goog-Api-Key", "right")
		var last map[string]any
		text := ""
		for line := range strings.Lines(string(got.body)) {
			if line = strings.TrimPrefix(line, "data: "); strings.TrimSpace(line) == "" {
				continue
			}
			last = nil
			if err := json.Unmarshal([]byte(line), &last); err != nil || got.status != 200 {
				t.Fatalf("%d %s: %v", got.status, got.body, err)
			}
			for _, part := range geminiContent(last)["parts"].([]any) {
				part := part.(map[string]any)
				said, _ := part["text"].(string)
				if text += said; part["functionCall"] != nil {
					contents = append(contents, geminiContent(last), map[string]any{"role": "user", "parts": []any{map[string]any{"functionResponse": map[string]any{"name": "f", "response": map[string]any{"output": "ok"}}}}})
					text += object(part["functionCall"].(map[string]any)["args"])
				}
			}
		}
		last["text"] = text
		return last
	}
	for i, want := range []string{`First.{"command":"ls"}`, `{"command":"mkdir`, `{"command":"apply_patch`, "All done."} {
		got := ask([]string{"streamGenerateContent?alt=sse", "generateContent"}[i%2])
		if text := got["text"].(string); !strings.HasPrefix(text, want) || got["usageMetadata"] == nil {
			t.Errorf("turn %d: %v, want %s", i+1, got, want)
		}
	}
	for _, c := range []struct {
		path, key, body string
		want            int
	}{
		{"m:countTokens", "right", `{"contents":[]}`, 200}, {"m:generateContent?key=right", "", `{"contents":[{"parts":[]}],"tools":[{"functionDeclarations":[{"name":"bash"}]}]}`, 200},
		{"m:generateContent", "wrong", `{}`, 401}, {"n:generateContent", "right", `{"contents":[{"parts":[]}]}`, 404}, {"m:embedContent", "right", `{}`, 404},
		{"m:generateContent", "right", `{}`, 400}, {"m:streamGenerateContent", "right", `{"contents":[{"parts":[]}]}`, 400},
	} {
		if got := request(t, http.MethodPost, base+"/v1/models/"+c.path, c.key, c.body); got.status != c.want {
			t.Errorf("%s: %d %s, want %d", c.path, got.status, got.body, c.want)
		}
	}
	if r := server.Requests()[0]; r.API != gemini || r.Model != "m" || !r.Stream || len(r.Tools) != 1 || r.Turn != 1 {
		t.Errorf("%+v", r)
	}
}

// geminiContent is what an answer says.
func geminiContent(e map[string]any) map[string]any {
	return e["candidates"].([]any)[0].(map[string]any)["content"].(map[string]any)
}

// TestWithoutTools: a script that an agent has no tool for says so, once.
func TestWithoutTools(t *testing.T) {
	server, base := serve(t, threeTurns)
	resp, _ := (&client{t: t, base: base, api: responses, prompt: "go", key: "k"}).send()
	if got := server.Requests()[0]; resp.status != http.StatusBadRequest || !strings.Contains(got.Refused, "no shell tool") {
		t.Errorf("%d, %q", resp.status, got.Refused)
	}
}

// TestChecks: what a provider refuses is refused, and what it accepts is not.
func TestChecks(t *testing.T) {
	const script = "key: right\nmodels: [m]\nturns: [{say: hello}]"
	for _, c := range []struct {
		name, method, path, key, body string
		want                          int
	}{
		{"honest", "POST", "/v1/responses", "right", `{"model":"m","input":"hi"}`, 200},
		{"honest message", "POST", "/v1/messages", "right", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, 200},
		{"tokens are counted", "POST", "/v1/messages/count_tokens", "right", `{"model":"m","messages":[]}`, 200},
		{"models", "GET", "/v1/models", "right", "", 200},
		{"wrong key", "POST", "/v1/responses", "wrong", `{"model":"m","input":"hi"}`, 401},
		{"no key", "POST", "/v1/responses", "", `{"model":"m","input":"hi"}`, 401},
		{"wrong key for models", "GET", "/v1/models", "wrong", "", 401},
		{"another model", "POST", "/v1/responses", "right", `{"model":"n","input":"hi"}`, 404},
		{"another path", "POST", "/v1/files", "right", `{}`, 404},
		{"another method", "GET", "/v1/responses", "right", "", 404},
		{"not JSON", "POST", "/v1/responses", "right", `{"model"`, 400},
		{"key given twice", "POST", "/v1/responses", "right", `{"model":"m","model":"n","input":"hi"}`, 400},
		{"no model", "POST", "/v1/responses", "right", `{"input":"hi"}`, 400},
		{"no input", "POST", "/v1/responses", "right", `{"model":"m"}`, 400},
		{"no bound", "POST", "/v1/messages", "right", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 400},
		{"output without a call", "POST", "/v1/responses", "right", `{"model":"m","input":[{"type":"function_call_output","call_id":"c"}]}`, 400},
	} {
		server, base := serve(t, script)
		resp := request(t, c.method, base+c.path, c.key, c.body)
		var v any
		if resp.status != c.want || json.Unmarshal(resp.body, &v) != nil {
			t.Errorf("%s: %d %s %v, want %d", c.name, resp.status, resp.body, resp.err, c.want)
		}
		r := server.Requests()
		if len(r) != 1 || r[0].Status != c.want || (r[0].Refused == "") != (c.want == 200) {
			t.Errorf("%s: recorded %+v", c.name, r)
		}
		if c.key != "" && !slices.Equal(server.Credentials(), []string{c.key}) {
			t.Errorf("%s: the credentials are %q", c.name, server.Credentials())
		}
	}
}

// TestConversations: the prompt selects what is played, tools' output does not,
// and what a request contains goes on with another conversation.
func TestConversations(t *testing.T) {
	server, base := serve(t, `
turns: [{run: cat task.json}, {say: default}]
conversations:
  - {match: apples, turns: [{say: about apples}]}
  - {seen: '"ok"', turns: [{run: never}, {say: it was read}]}
`)
	ask := func(prompt string, history ...any) []map[string]any {
		c := &client{t: t, base: base, api: responses, tools: `[{"type":"function","name":"exec_command"}]`, prompt: prompt, key: "k", history: history}
		_, events := c.send()
		if len(c.calls(events)) == 1 {
			_, events = c.send()
		}
		return events
	}
	if got := text(ask("count the apples")); got != "about apples" {
		t.Error(got)
	}
	if got := text(ask("count the pears")); got != "it was read" {
		t.Error(got)
	}
	if got := text(ask("pears", map[string]any{"type": "message", "role": "assistant", "content": "apples"})); got != "it was read" {
		t.Error(got)
	}
	task := map[string]any{"type": "agent_message", "content": []any{map[string]any{"type": "encrypted_content", "encrypted_content": "apples"}}}
	if got := text(ask("pears", task)); got != "about apples" {
		t.Errorf("a sub-agent gets %q", got)
	}
	if r := server.Requests()[0]; r.Conversation != "apples" || r.Turn != 1 || r.Try != 1 {
		t.Errorf("%+v", r)
	}
}

// TestCompaction: a conversation that is summed up continues where it was.
func TestCompaction(t *testing.T) {
	_, base := serve(t, threeTurns)
	c := &client{t: t, base: base, api: responses, tools: dialects[0].tools, prompt: "go", key: "k"}
	_, events := c.send()
	c.calls(events)
	sum := &client{t: t, base: base, api: responses, prompt: "go", key: "k",
		history: append(slices.Clone(c.history), map[string]any{"type": "message", "role": "user", "content": "You are performing a CONTEXT CHECKPOINT COMPACTION."})}
	_, events = sum.send()
	c.history = []any{map[string]any{"type": "message", "role": "user", "content": text(events)}}
	_, events = c.send()
	if calls := c.calls(events); len(calls) != 1 || !strings.Contains(object(calls[0]), "mkdir") {
		t.Errorf("after %q comes %v", sum.history[len(sum.history)-1], calls)
	}
}

// TestReflection: a script that gives the credential back does so in all the
// forms in which a relay must find it, and others do not.
func TestReflection(t *testing.T) {
	const key = "sk-canary-0123456789"
	back := []byte(key)
	slices.Reverse(back)
	forms := []string{key, base64.StdEncoding.EncodeToString([]byte(key)), hex.EncodeToString([]byte(key)), string(back)}
	for _, api := range []API{responses, messages} {
		_, base := serve(t, "conversations:\n  - {match: give, turns: [{say: Here., reflect: true}]}\n  - {match: refuse, turns: [{before: [{status: 401, reflect: true}]}]}")
		c := &client{t: t, base: base, api: api, prompt: "give", key: key}
		resp, events := c.send()
		said := text(events)
		for _, form := range forms {
			if !strings.Contains(said, form) {
				t.Errorf("%s: %q is not in %q", api, form, said)
			}
			for _, e := range events {
				if e["delta"] != nil && strings.Contains(object(e), form) {
					t.Errorf("%s: no edge of an event splits %q", api, form)
				}
			}
		}
		if !strings.Contains(fmt.Sprint(resp.header), key) {
			t.Errorf("%s: no header has the credential", api)
		}
		if resp, events := (&client{t: t, base: base, api: api, prompt: "honest", key: key}).send(); strings.Contains(fmt.Sprint(resp.header, events), key) {
			t.Errorf("%s: the credential comes back unasked", api)
		}
	}
	_, base := serve(t, "turns: [{before: [{status: 401, reflect: true}]}]")
	resp := request(t, "POST", base+"/v1/responses", key, `{"model":"m","input":"hi"}`)
	if !bytes.Contains(resp.body, []byte(key)) || resp.status != http.StatusUnauthorized {
		t.Errorf("%d %s", resp.status, resp.body)
	}
}

// TestGzip: an answer is compressed for a client that accepts it.
func TestGzip(t *testing.T) {
	_, base := serve(t, "turns: [{say: packed, gzip: true}]")
	for accept, want := range map[string]string{"gzip, br": "gzip", "br": ""} {
		resp := request(t, http.MethodPost, base+"/v1/responses", "k", `{"model":"m","input":"hi","stream":true}`, "Accept-Encoding", accept)
		if got := resp.header.Get("Content-Encoding"); got != want {
			t.Errorf("%q for a client that accepts %q", got, accept)
		}
		in := io.Reader(bytes.NewReader(resp.body))
		if want != "" {
			unpacked, err := gzip.NewReader(in)
			if err != nil {
				t.Fatal(err)
			}
			in = unpacked
		}
		if got := text(readEvents(t, in)); got != "packed" {
			t.Error(got)
		}
	}
}

// FuzzRequest: no body breaks the server.
func FuzzRequest(f *testing.F) {
	f.Add(true, []byte(`{"model":"m","input":[{"type":"message","role":"user","content":[{"text":"hi"}]}],"stream":true}`))
	f.Add(false, []byte(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"scripted-turn-999999"}],"tools":[{"name":"Bash"}]}`))
	f.Add(true, []byte(`{"model":"m","input":"hi","tools":[{"type":"namespace","tools":[{"type":"custom","name":"exec"}]}]}`))
	s, err := Parse("script.yaml", []byte(threeTurns))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, responses bool, body []byte) {
		path := "/v1/messages"
		if responses {
			path = "/v1/responses"
		}
		req := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		req.Header.Set("X-Api-Key", "k")
		req.Header.Set("Anthropic-Version", "1")
		w := httptest.NewRecorder()
		New(s, nil).ServeHTTP(w, req)
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}
