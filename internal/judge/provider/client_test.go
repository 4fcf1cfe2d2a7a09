package provider_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"securebench/internal/judge"
	"securebench/internal/judge/provider"
	"securebench/internal/redact"
)

// TestSlowJudge: a judge that does not end its answer in time could not be asked. That is
// no refusal of the candidate's, which would be its failure.
func TestSlowJudge(t *testing.T) {
	done := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"model":"j","choices":[{"delta":{"content":"{"}}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		if r.Method == http.MethodPost {
			<-done
		}
	}))
	defer h.Close()
	defer close(done)
	s, problem := parse(t, "judge: {model: j, api: chat, base_url: \""+h.URL+"\", api_key_env: K}\n")
	if s == nil {
		t.Fatal(problem)
	}
	c, err := provider.Open(t.Context(), s, provider.Around{LookupEnv: func(string) (string, bool) { return "sk-slow-judge-0001", true }, Secrets: &redact.Registry{}})
	if err != nil {
		t.Fatal(err)
	}
	c.Hurry(500 * time.Millisecond)
	reply, err := c.Ask(t.Context(), judge.Request{Task: "t", Attempt: 1, System: "s", User: "u", Form: "f", Schema: []byte("{}")})
	if err == nil || !strings.Contains(err.Error(), "its answer was not complete in time") {
		t.Errorf("%+v, %v", reply, err)
	}
}
