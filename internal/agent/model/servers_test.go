package model_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/awaittest"
	"securebench/internal/gateway/access/accesstest"
)

const chatAnswer = `data: {"model":"m","choices":[{"delta":{"content":"4"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n"

// TestServers: each server is asked at its path, with its key in its header, by its model's
// name, and what it says against a request is shown in one line without the key.
func TestServers(t *testing.T) {
	for _, s := range accesstest.Servers() {
		t.Run(s.Name, func(t *testing.T) {
			refuses := false
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet { // of the list of models, which few have
					http.NotFound(w, r)
					return
				}
				if r.RequestURI != s.Path {
					t.Errorf("asked at %s", r.RequestURI)
				}
				for name, want := range s.Want {
					if got := r.Header.Values(name); strings.Join(got, "|") != strings.Join(want, "|") {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || !strings.Contains(string(body), `"model":"`+s.Model+`"`) {
					t.Errorf("asked with %s: %v", body, err)
				}
				if refuses {
					w.WriteHeader(s.Status)
					_, _ = io.WriteString(w, s.Refusal)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, chatAnswer)
			}))
			defer h.Close()
			at := s.Address(h.URL)
			keys, err := at.Read(func(string) string { return s.Key })
			if err != nil {
				t.Fatal(err)
			}
			c, err := model.Open(t.Context(), model.Config{Settings: harness.Model{Relay: harness.Relay{Address: at, Model: s.Model}, MaxTokens: 64}, Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			c.Hurry()
			ask := func() (model.Result, error) {
				return c.Ask(t.Context(), model.Question{Question: harness.Question{User: "2+2?"}, Task: "t", Attempt: 1}, awaittest.Hung, io.Discard)
			}
			if res, err := ask(); err != nil || res.Text != "4" {
				t.Fatalf("%+v: %v", res, err)
			}
			refuses = true
			res, err := ask()
			said := res.Why
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, s.Says) || strings.Contains(said, "\n") || strings.Contains(said, "6789") {
				t.Errorf("said %q, want %q", said, s.Says)
			}
		})
	}
}
