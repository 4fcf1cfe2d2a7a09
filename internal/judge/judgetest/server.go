package judgetest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// Server is a provider whose model judges as its character does. It answers whole, by each
// of the three APIs.
type Server struct {
	Of    Character
	Model string // "" is the one that is asked for
	// Before may answer in the place of the model, and reports whether it did.
	Before func(w http.ResponseWriter, user string) bool

	mu        sync.Mutex
	after     func()
	questions []string
	keys      []string
}

// Questions returns the questions that were answered, in their order.
func (s *Server) Questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.questions...)
}

// Keys returns the keys that came.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.keys...)
}

// asked is what is read of a request.
type asked struct {
	Model    string `json:"model"`
	Input    string `json:"input"`
	Messages []struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	} `json:"messages"`
}

// user returns the question.
func (a asked) user() string {
	if len(a.Messages) == 0 {
		return a.Input
	}
	switch c := a.Messages[len(a.Messages)-1].Content.(type) {
	case string:
		return c
	case []any:
		if block, ok := c[0].(map[string]any); ok {
			return fmt.Sprint(block["text"])
		}
	}
	return ""
}

// ServeHTTP answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		_, _ = io.WriteString(w, "{}")
		return
	}
	body, err := io.ReadAll(r.Body)
	var a asked
	if err != nil || json.Unmarshal(body, &a) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	user := a.user()
	if s.Before != nil && s.Before(w, user) {
		return
	}
	s.mu.Lock()
	s.questions, s.keys = append(s.questions, user), append(s.keys, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
	s.mu.Unlock()
	p := Read(user)
	findings, refuses := s.Of(p)
	if s.Model != "" {
		a.Model = s.Model
	}
	w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(answer(r.URL.Path, a.Model, p.Say(findings), refuses, len(user)/4), json.Deterministic(true))
	if err == nil {
		_, _ = w.Write(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after != nil {
		s.after()
	}
}

// After has a function called after each answer, one at a time; nil is not.
func (s *Server) After(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = f
}

// Reset forgets what came.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.questions, s.keys = nil, nil
}

// answer is an answer by the API of a path.
func answer(path, model, text string, refuses bool, tokens int) map[string]any {
	type object = map[string]any
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		message := object{"role": "assistant", "content": text}
		if refuses {
			message = object{"role": "assistant", "refusal": "I cannot judge this."}
		}
		return object{"model": model, "choices": []any{object{"message": message, "finish_reason": "stop"}}, "usage": object{"prompt_tokens": tokens, "completion_tokens": 20}}
	case strings.HasSuffix(path, "/messages"):
		stop := "tool_use"
		if refuses {
			stop = "refusal"
		}
		var input any
		if json.Unmarshal([]byte(text), &input) != nil {
			input = text
		}
		return object{"model": model, "type": "message", "content": []any{object{"type": "tool_use", "name": "judgement", "input": input}}, "stop_reason": stop,
			"usage": object{"input_tokens": tokens, "output_tokens": 20}}
	}
	part := object{"type": "output_text", "text": text}
	if refuses {
		part = object{"type": "refusal", "refusal": "I cannot judge this."}
	}
	return object{"model": model, "status": "completed", "output": []any{object{"type": "message", "content": []any{part}}}, "usage": object{"input_tokens": tokens, "output_tokens": 20}}
}
