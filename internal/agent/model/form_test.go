package model_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/gateway/access"
)

// TestForm: each API is asked for the form in the way that it enforces, and what comes back
// is the answer.
func TestForm(t *testing.T) {
	const schema, answer = `{"type":"object"}`, `{"met":true}`
	for api, tt := range map[string]struct{ asks, whole string }{
		access.Responses: {`"text":{"format":{"name":"f","schema":` + schema + `,"strict":true,"type":"json_schema"}}`,
			`{"status":"completed","model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"{\"met\":true}"}]}]}`},
		access.Chat: {`"response_format":{"json_schema":{"name":"f","schema":` + schema + `,"strict":true},"type":"json_schema"}`,
			`{"model":"m","choices":[{"message":{"content":"{\"met\":true}"},"finish_reason":"stop"}]}`},
		access.Messages: {`"tool_choice":{"name":"f","type":"tool"}`,
			`{"model":"m","content":[{"type":"tool_use","name":"f","input":{"met":true}}],"stop_reason":"tool_use"}`},
		access.Gemini: {`"responseJsonSchema":` + schema + `,"responseMimeType":"application/json"`,
			`{"candidates":[{"content":{"parts":[{"text":"{\"met\":true}"}]},"finishReason":"STOP"}]}`},
	} {
		var asked string
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			asked = string(body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, tt.whole)
		}))
		c, err := model.New(model.Config{Settings: harness.Model{Relay: harness.Relay{Address: access.Address{API: api, BaseURL: h.URL}, Model: "m"}, MaxTokens: 64}, Keys: access.Keys{Key: key}})
		if err != nil {
			t.Fatal(err)
		}
		seed := int64(2)
		q := model.Question{Question: harness.Question{User: "q"}, Attempt: 1, Form: &model.Form{Name: "f", Schema: jsontext.Value(schema)}, Seed: &seed}
		res, err := c.Ask(t.Context(), q, time.Minute, io.Discard)
		got := res.Text
		if api == access.Messages {
			got = res.Called
		}
		if err != nil || got != answer || !strings.Contains(asked, tt.asks) || strings.Contains(asked, `"seed":2`) != (api == access.Chat || api == access.Gemini) {
			t.Errorf("%s: %q, %v, asked %s", api, got, err, asked)
		}
		h.Close()
	}
}

// TestJudgesErrors: what a provider says about a judge's question may repeat hidden values,
// so nothing quotes it. About the question of an agent, which is public, it is told.
func TestJudgesErrors(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"a status": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"cannot process: hidden-rubric"}}`)
		},
		"an event": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"error":{"message":"cannot process: hidden-rubric","code":"insufficient_quota"}}`+"\n\n")
		},
	} {
		for who, quoted := range map[string]bool{"": true, "judge": false} {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "Say OK.") {
					_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"OK"},"finish_reason":"stop"}]}`+"\n\n")
					return
				}
				answer(w)
			}))
			c, err := model.New(model.Config{Who: who, Settings: harness.Model{Relay: harness.Relay{Address: access.Address{API: access.Chat, BaseURL: h.URL}, Model: "m"}}, Keys: access.Keys{Key: key}})
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.Ask(t.Context(), model.Question{Question: harness.Question{User: "q"}, Attempt: 1}, time.Minute, io.Discard)
			if said := fmt.Sprint(res.Why, res.Tries, err); len(res.Tries) == 0 || strings.Contains(said, "hidden-rubric") != quoted {
				t.Errorf("%s of %q: %s", name, who, said)
			}
			h.Close()
		}
	}
}
