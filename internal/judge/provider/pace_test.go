package provider_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/awaittest"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/pace"
	"securebench/internal/gateway/relay"
	"securebench/internal/judge"
	"securebench/internal/judge/provider"
	"securebench/internal/redact"
)

const answer = `data: {"model":"j","choices":[{"delta":{"content":"{}"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

// TestOnePace: the judge, an agent and a question to a model that ask the same host share
// the requests that may be under way there.
func TestOnePace(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, url string, paces *pace.Set) error{
		"an agent": asAgent, "a question": asQuestion,
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			answers := make(chan struct{})
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					asked.Add(1)
					<-answers
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, answer)
			}))
			defer h.Close()
			paces := &pace.Set{}
			s, problem := parse(t, "judge: {model: j, api: chat, base_url: \""+h.URL+"\", api_key_env: K, max_connections: 1}\n")
			if s == nil {
				t.Fatal(problem)
			}
			c, err := provider.Open(t.Context(), s, provider.Around{LookupEnv: func(string) (string, bool) { return "sk-slow-judge-0001", true }, Secrets: &redact.Registry{}, Paces: paces})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 2)
			go func() { ended <- ask(t.Context(), h.URL, paces) }()
			awaittest.Until(t, "the other to be asked", func() bool { return asked.Load() == 1 })
			go func() {
				_, err := c.Ask(t.Context(), judge.Request{Task: "t", Attempt: 1, System: "s", User: "u", Form: "f", Schema: []byte("{}")})
				ended <- err
			}()
			host := strings.TrimPrefix(h.URL, "http://")
			awaittest.Until(t, "the judge to wait", func() bool {
				_, _, n := paces.At(host, 0).Counts()
				return n == 1
			})
			if n := asked.Load(); n != 1 {
				t.Errorf("%d requests are under way", n)
			}
			close(answers)
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if n := asked.Load(); n != 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// asAgent asks through the relay.
func asAgent(ctx context.Context, url string, paces *pace.Set) error {
	r, err := relay.New(relay.Config{API: relay.Chat, BaseURL: url, Model: "m", Paces: paces})
	if err != nil {
		return err
	}
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
	req.Header.Set("Authorization", "Bearer t")
	r.Open(relay.Options{Token: "t"}).Handler(ctx).ServeHTTP(httptest.NewRecorder(), req)
	return nil
}

// asQuestion asks as the model harness does.
func asQuestion(ctx context.Context, url string, paces *pace.Set) error {
	set := harness.Model{Relay: harness.Relay{Address: access.Address{API: access.Chat, BaseURL: url}, Model: "m"}}
	c, err := model.New(model.Config{Settings: set, Paces: paces})
	if err != nil {
		return err
	}
	_, err = c.Ask(ctx, model.Question{Question: harness.Question{User: "q"}, Attempt: 1}, time.Minute, io.Discard)
	return err
}
