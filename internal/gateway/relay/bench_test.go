package relay

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// benchStream is a response of 200 pieces, as a turn of an agent has.
func benchStream(c spoken) string {
	return strings.Repeat(fmt.Sprintf(c.piece, " and so on"), 200) + c.stream
}

// benchBody is a request of a turn, of 100 kB.
func benchBody(c spoken) string {
	return strings.Replace(c.body, `"hi"`, `"`+strings.Repeat("and so on ", 10_000)+`"`, 1)
}

// BenchmarkRelay compares the relay with the standard library's reverse proxy
// before the same provider, without a sandbox between, in each dialect.
func BenchmarkRelay(b *testing.B) {
	for _, api := range slices.Sorted(maps.Keys(apis)) {
		c := apis[api]
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, benchStream(c))
		}))
		b.Run(string(api)+"/proxy", func(b *testing.B) {
			proxy := weakProxy(upstream.URL)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				// Or the answer, which may come before the transport has seen the end of the
				// request's body, closes that, and with it the connection to the provider.
				if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
					b.Error(err)
				}
				proxy.ServeHTTP(w, r)
			}))
			defer s.Close()
			load(b, c, s.Listener.Addr().String())
		})
		b.Run(string(api)+"/relay", func(b *testing.B) {
			r, err := New(config(api, upstream.URL))
			if err != nil {
				b.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error)
			go func() { done <- r.Open(Options{Token: token}).Serve(ctx, ln) }()
			load(b, c, ln.Addr().String())
			cancel()
			<-done
		})
		upstream.Close()
	}
}

// load sends requests, 8 at a time, and reports how long they took.
func load(b *testing.B, c spoken, address string) {
	body, want := benchBody(c), int64(len(benchStream(c)))
	client := &http.Transport{MaxIdleConnsPerHost: 8}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var took []time.Duration
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			began := time.Now()
			req, _ := http.NewRequest(http.MethodPost, "http://"+address+c.path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+token)
			response, err := client.RoundTrip(req)
			if err != nil {
				b.Error(err)
				return
			}
			n, err := io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err != nil || n != want {
				b.Errorf("%d bytes, %v", n, err)
			}
			mu.Lock()
			took = append(took, time.Since(began))
			mu.Unlock()
		}
	})
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "req/s")
}
