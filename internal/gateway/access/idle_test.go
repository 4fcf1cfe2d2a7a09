package access_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"securebench/internal/gateway/access"
)

// closing serves one request on each connection and closes it at the second, as a
// server does whose idle connections end.
func closing(t *testing.T, served *atomic.Int64) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for n := range 2 {
					r, err := http.ReadRequest(in)
					if err != nil || n == 1 || r.URL.Path == "/never" {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					served.Add(1)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// TestIdleConnection: a connection that the server closed while it was idle costs
// nothing: the request goes again, on another one. A plain transport fails, and one
// that a server closes before any answer is not asked again.
func TestIdleConnection(t *testing.T) {
	ask := func(tr http.RoundTripper, url string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := tr.RoundTrip(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	var served atomic.Int64
	url := closing(t, &served)
	plain := &http.Transport{}
	t.Cleanup(plain.CloseIdleConnections)
	if first, second := ask(plain, url), ask(plain, url); first != nil || second == nil {
		t.Fatalf("the fault does not work: %v, %v", first, second)
	}
	served.Store(0)
	ours := access.Transport()
	for n := range 20 {
		if err := ask(ours, url); err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
	}
	if n := served.Load(); n != 20 {
		t.Errorf("%d requests were served, want 20", n)
	}
	if err := ask(access.Transport(), url+"/never"); err == nil {
		t.Error("a server that closes every connection has answered")
	}
}
