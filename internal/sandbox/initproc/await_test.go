package initproc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestAwaitService(t *testing.T) {
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/broken", http.StatusFound) })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("/late", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	defer plain.Close()
	defer secure.Close()
	address := strings.TrimPrefix(plain.URL, "http://")
	for _, c := range [][2]string{{"tcp", address}, {"http", plain.URL + "/ready"}, {"http", plain.URL + "/moved"},
		{"http", plain.URL + "/late"}, {"http", secure.URL + "/ready"}} {
		if err := AwaitService(t.Context(), c[0], c[1]); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	for _, c := range [][2]string{{"tcp", "nowhere"}, {"http", "ftp://x"}, {"http", "http://"}, {"udp", address}} {
		if err := AwaitService(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("%s is accepted", c)
		}
	}
}

// TestAwaitServiceGivesUp waits for what never answers, until the context ends.
func TestAwaitServiceGivesUp(t *testing.T) {
	never := errors.New("the time is up")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	_ = l.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	var asked atomic.Int64
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		if asked.Add(1) == 2 {
			cancel(never)
		}
	}))
	defer broken.Close()
	if err := AwaitService(ctx, "http", broken.URL); !errors.Is(err, never) || asked.Load() < 2 {
		t.Errorf("got %v after %d attempts", err, asked.Load())
	}
	if err := AwaitService(ctx, "tcp", free); !errors.Is(err, never) {
		t.Errorf("got %v", err)
	}
}
