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
	opens := ""
	if c.path == pathMessages {
		opens = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	}
	return opens + strings.Repeat(fmt.Sprintf(c.piece, " and so on"), 200) + c.stream
}

// benchBody is a request of a turn, of 100 kB.
func benchBody(c spoken) string {
	return strings.Replace(c.body, `"hi"`, `"`+strings.Repeat("and so on ", 10_000)+`"`, 1)
}

// BenchmarkRelay compares the relay with the standard library's reverse proxy before the
// same provider, without a sandbox between, in each dialect. Both are asked in turn, so
// that whatever else the machine does slows both. The provider sends its pieces at once,
// so that there is nothing to wait for but the relay.
func BenchmarkRelay(b *testing.B) {
	for _, api := range slices.Sorted(maps.Keys(apis)) {
		c, stream := apis[api], benchStream(apis[api])
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, stream)
		}))
		b.Run(string(api), func(b *testing.B) {
			benchRelay(b, api, upstream.URL, &loader{b: b, client: http.Transport{MaxIdleConnsPerHost: 8}, path: c.path, body: benchBody(c), want: len(stream)})
		})
		upstream.Close()
	}
}

func benchRelay(b *testing.B, api API, provider string, l *loader) {
	proxy := httptest.NewServer(linkReverseProxy(provider))
	defer proxy.Close()
	r, err := New(config(api, provider))
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
	sides := [2]side{}
	for b.Loop() {
		l.load(proxy.Listener.Addr().String(), &sides[0])
		l.load(ln.Addr().String(), &sides[1])
	}
	report(b, sides)
	l.client.CloseIdleConnections()
	cancel()
	<-done
}

// loader sends requests.
type loader struct {
	b          *testing.B
	client     http.Transport
	path, body string
	want       int // bytes of each answer
}

// load sends 160 requests, 8 at a time, and notes how long they took.
func (l *loader) load(address string, s *side) {
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for range 8 {
		all.Go(func() {
			for range 20 {
				began := time.Now()
				l.ask(address)
				mu.Lock()
				s.took = append(s.took, float64(time.Since(began)))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.total += float64(time.Since(began))
}

// ask sends a request.
func (l *loader) ask(address string) {
	req, _ := http.NewRequest(http.MethodPost, "http://"+address+l.path, strings.NewReader(l.body))
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := l.client.RoundTrip(req)
	if err != nil {
		l.b.Error(err)
		return
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); err != nil || n != int64(l.want) {
		l.b.Errorf("%d bytes, %v", n, err)
	}
}
