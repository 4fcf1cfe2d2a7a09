package produce

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slowly is a body that notes how many are read at a time.
type slowly struct {
	now, most *atomic.Int64
	once      bool
}

func (s *slowly) Read([]byte) (int, error) {
	if s.once {
		s.now.Add(-1)
		return 0, io.EOF
	}
	s.once = true
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	time.Sleep(10 * time.Millisecond)
	return 0, nil
}

// TestAnswererMemory: of many large requests, one is in memory at a time.
func TestAnswererMemory(t *testing.T) {
	var now, most atomic.Int64
	var wg sync.WaitGroup
	a := &answerer{heard: func(string) {}}
	for range 20 {
		wg.Go(func() {
			a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/messages", &slowly{now: &now, most: &most}))
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d bodies at a time", most.Load())
	}
}

// FuzzAnswerer: whatever a program in a sandbox asks for, only what can be the
// name of a model is heard, and nothing is granted.
func FuzzAnswerer(f *testing.F) {
	for _, body := range []string{`{"model":"claude-one-1"}`, `{"model":"aside"}`, `{"model":"a b"}`, `{"model":["x"]}`, `{"model":"x","model":"y"}`, `{`, ``} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var heard []string
		a := &answerer{besides: "aside", heard: func(m string) { heard = append(heard, m) }}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/messages", bytes.NewReader(body)))
		if w.Code != http.StatusForbidden {
			t.Errorf("status %d", w.Code)
		}
		for _, m := range heard {
			if m == "aside" || len(m) > 128 || strings.ContainsAny(m, " \n\x1b\"") || !bytes.Contains(body, []byte(`model`)) {
				t.Errorf("heard %q in %q", m, body)
			}
		}
	})
}
