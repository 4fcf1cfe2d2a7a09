package relay

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"securebench/internal/gateway/access/accesstest"
)

// TestServers: behind the relay each server is asked at its path, with its key in its
// header, by its model's name, as without one, and what it says against a request comes to
// the agent, in its own form, without the key.
func TestServers(t *testing.T) {
	for _, s := range accesstest.Servers() {
		t.Run(s.Name, func(t *testing.T) {
			var mu sync.Mutex
			refuses := false
			base := provider(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
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
				_, _ = io.WriteString(w, chatStream)
			})
			at := s.Address(base)
			keys, err := at.Read(func(string) string { return s.Key })
			if err != nil {
				t.Fatal(err)
			}
			g := start(t, newRelay(t, Config{API: Chat, BaseURL: at.BaseURL, Keys: keys, Model: s.Model})).listen()
			body := strings.Replace(chatBody, model, s.Model, 1)
			if status, text := g.post(pathChat, body); status != http.StatusOK || !strings.Contains(text, "[DONE]") {
				t.Fatalf("%d %s", status, text)
			}
			mu.Lock()
			refuses = true
			mu.Unlock()
			if status, text := g.post(pathChat, body); status < 400 || !strings.Contains(text, s.Says) && text != s.Refusal || strings.Contains(text, "6789") {
				t.Errorf("%d %s, want %q", status, text, s.Says)
			}
		})
	}
}
