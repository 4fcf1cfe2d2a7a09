package relay

import (
	"context"
	"io"
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
var benchStream = strings.Repeat("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\" and so on\"}\n\n", 200) + codexStream

// BenchmarkRelay compares the relay with the standard library's reverse proxy
// before the same provider, without a sandbox between.
func BenchmarkRelay(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, benchStream)
	}))
	defer upstream.Close()
	b.Run("proxy", func(b *testing.B) {
		s := httptest.NewServer(weakProxy(upstream.URL))
		defer s.Close()
		load(b, s.Listener.Addr().String())
	})
	b.Run("relay", func(b *testing.B) {
		r, err := New(config(Responses, upstream.URL))
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
		load(b, ln.Addr().String())
		cancel()
		<-done
	})
}

// load sends requests, 8 at a time, and reports how long they took.
func load(b *testing.B, address string) {
	body := linkBody()
	client := &http.Transport{MaxIdleConnsPerHost: 8}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var took []time.Duration
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			began := time.Now()
			req, _ := http.NewRequest(http.MethodPost, "http://"+address+pathResponses, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+token)
			response, err := client.RoundTrip(req)
			if err != nil {
				b.Error(err)
				return
			}
			n, err := io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err != nil || n != int64(len(benchStream)) {
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
