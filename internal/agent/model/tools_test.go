package model_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/awaittest"
	"securebench/internal/digest"
	"securebench/internal/gateway/access"
)

func offered() []harness.Tool {
	return []harness.Tool{{Name: "tank_fill", Description: "Fills.", Parameters: []byte(`{"type":"object","properties":{"n":{"type":"number"}}}`)}}
}

// TestTools: each API gets the tools in its form, and the call that comes back is the
// answer, as JSON with its keys in order. It is the same after a resume.
func TestTools(t *testing.T) {
	want := map[string]string{
		access.Responses: `[{"description":"Fills.","name":"tank_fill","parameters":{"properties":{"n":{"type":"number"}},"type":"object"},"strict":false,"type":"function"}]`,
		access.Chat:      `[{"function":{"description":"Fills.","name":"tank_fill","parameters":{"properties":{"n":{"type":"number"}},"type":"object"}},"type":"function"}]`,
		access.Messages:  `[{"description":"Fills.","input_schema":{"properties":{"n":{"type":"number"}},"type":"object"},"name":"tank_fill"}]`,
		access.Gemini:    `[{"functionDeclarations":[{"description":"Fills.","name":"tank_fill","parametersJsonSchema":{"properties":{"n":{"type":"number"}},"type":"object"}}]}]`,
	}
	for _, api := range apis() {
		t.Run(api, func(t *testing.T) {
			b := newBench(t, api, `turns: [{say: "I fill it.", call: {name: tank_fill, arguments: {unit: "<think>l", n: 2}}}]`, nil)
			b.Keep(openJournal(t, filepath.Join(t.TempDir(), "answers.jsonl"), digest.Salt{1}), nil)
			q := b.question("Fill two tanks.")
			q.Tools = offered()
			for _, reused := range []bool{false, true} {
				var seen bytes.Buffer
				res, err := b.Ask(t.Context(), q, awaittest.Hung, &seen)
				const text = `[{"arguments":{"n":2,"unit":"\u003cthink\u003el"},"name":"tank_fill"}]`
				if err != nil || res.End != model.Answered || res.Text != text || res.Beside != "I fill it." || res.Reused != reused ||
					!reused && seen.String() != "I fill it."+text {
					t.Fatalf("%+v, shown %q: %v", res, seen.String(), err)
				}
			}
			var body struct {
				Tools any `json:"tools"`
			}
			all := b.server.Requests()
			if err := json.Unmarshal(all[len(all)-1].Body, &body); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(body.Tools, json.Deterministic(true))
			if diff := cmp.Diff(want[api], string(got)); diff != "" || err != nil {
				t.Errorf("%s %v", diff, err)
			}
			q.Tools = nil // another question
			if res, err := b.Ask(t.Context(), q, awaittest.Hung, io.Discard); err != nil || res.Reused {
				t.Errorf("without tools: %+v, %v", res, err)
			}
		})
	}
}

// TestCallsAsTheyCome: several calls, in pieces or whole, and what is no object.
func TestCallsAsTheyCome(t *testing.T) {
	const two = `[{"arguments":{"a":1,"b":10.0000000000000001},"name":"f"},{"arguments":{},"name":"g"}]`
	chat := func(deltas ...string) string {
		var out string
		for _, d := range deltas {
			out += `data: {"choices":[{"index":0,"delta":{"tool_calls":[` + d + "]}}]}\n\n"
		}
		return out + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	}
	responses := func(output string, before ...string) string {
		return strings.Join(before, "") + `data: {"type":"response.completed","response":{"status":"completed","output":[` + output + "]}}\n\n"
	}
	messages := func(events ...string) string {
		out := `data: {"type":"message_start","message":{}}` + "\n\n"
		for _, e := range events {
			out += "data: {" + e + "}\n\n"
		}
		return out + `data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
	}
	const items = `{"type":"function_call","name":"f","arguments":"{\"b\":10.0000000000000001,\"a\":1}"},{"type":"function_call","name":"g","arguments":""}`
	tests := map[string]struct{ api, stream, want string }{
		"chat, in pieces": {access.Chat, chat(`{"index":0,"function":{"name":"f","arguments":""}}`, `{"index":1,"function":{"name":"g"}}`,
			`{"index":0,"function":{"arguments":"{\"b\":10.000000"}}`, `{"index":0,"function":{"arguments":"0000000001,\"a\":1}"}}`), two},
		"chat, without numbers": {access.Chat, chat(`{"function":{"name":"f","arguments":"{\"b\":10.0000000000000001,"}}`, `{"function":{"arguments":"\"a\":1}"}},{"function":{"name":"g","arguments":"{}"}}`), two},
		"chat, all numbered 0": {access.Chat, chat(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"b\":10.0000000000000001,\"a\":1}"}}`,
			`{"index":0,"id":"c2","function":{"name":"g","arguments":"{}"}}`), two},
		"chat, named with each piece": {access.Chat, chat(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"b\":10.0000000000000001,"}}`,
			`{"index":0,"id":"c1","function":{"name":"f","arguments":"\"a\":1}"}}`, `{"id":"c2","function":{"name":"g","arguments":"{"}}`, `{"id":"c2","function":{"name":"g","arguments":"}"}}`), two},
		"responses": {access.Responses, responses(items), two},
		"responses, done before": {access.Responses, responses("", `data: {"type":"response.output_item.done","item":{"type":"function_call","name":"f","arguments":"{\"a\":1,\"b\":10.0000000000000001}"}}`+"\n\n",
			`data: {"type":"response.output_item.done","item":{"type":"function_call","name":"g","arguments":"{}"}}`+"\n\n"), two},
		"messages": {access.Messages, messages(`"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f","input":{}}`,
			`"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"b\":10.0000000000000001,"}`,
			`"type":"content_block_start","index":2,"content_block":{"type":"tool_use","name":"g","input":{ }}`,
			`"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"a\":1}"}`), two},
		"gemini": {access.Gemini, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\"b\":10.0000000000000001,\"a\":1}}},{\"functionCall\":{\"name\":\"g\"}}]},\"finishReason\":\"STOP\"}]}\n\n", two},
		"an argument twice": {access.Chat, chat(`{"index":0,"function":{"name":"f","arguments":"{\"a\":1,\"a\":2}"}}`),
			`[{"arguments":"{\"a\":1,\"a\":2}","name":"f"}]`},
		"cut off": {access.Chat, chat(`{"index":0,"function":{"name":"f","arguments":"{\"a\":\"<"}}`), `[{"arguments":"{\"a\":\"\u003c","name":"f"}]`},
		"a list":  {access.Chat, chat(`{"index":0,"function":{"name":"f","arguments":"[1]"}}`), `[{"arguments":"[1]","name":"f"}]`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, tt.stream)
			}))
			t.Cleanup(h.Close)
			c, err := model.New(model.Config{Settings: harness.Model{Relay: harness.Relay{Address: access.Address{API: tt.api, BaseURL: h.URL}, Model: "m-1"}, MaxTokens: 64}})
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.Ask(t.Context(), bench{}.question("q"), awaittest.Hung, io.Discard)
			if err != nil || res.Text != tt.want {
				t.Errorf("%q, want %q: %v", res.Text, tt.want, err)
			}
		})
	}
}
