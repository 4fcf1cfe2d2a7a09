package scripted

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestStorm: requests get the faults of a turn one by one, then its answer, and
// other conversations do not shorten the list.
func TestStorm(t *testing.T) {
	server, base := serve(t, "turns: [{say: calm, before: [{status: 429, times: 2, headers: {Retry-After: \"7\"}}, {status: 529, message: Busy.}]}]")
	ask := func(conversation string) reply {
		return request(t, http.MethodPost, base+"/v1/responses", "k", `{"model":"m","input":"hi","stream":true,"prompt_cache_key":"`+conversation+`"}`)
	}
	for i, want := range []int{429, 429, 529, 200, 200} {
		resp := ask("one")
		if resp.status != want || (resp.header.Get("Retry-After") == "7") != (want == 429) {
			t.Errorf("request %d gets %d %v %s", i+1, resp.status, resp.header, resp.body)
		}
		if want == 529 && !strings.Contains(string(resp.body), `"message":"Busy."`) {
			t.Errorf("%s", resp.body)
		}
		ask("two")
	}
	last := server.Requests()[8]
	if last.Try != 5 || last.Status != 200 || last.Turn != 1 {
		t.Errorf("recorded %+v", last)
	}
}

// TestBrokenStreams: a cut stream is not whole, nor is a connection that ends
// without an answer; the same request without the fault is.
func TestBrokenStreams(t *testing.T) {
	for _, path := range []string{"/v1/responses", "/v1/messages"} {
		_, base := serve(t, "turns: [{say: a long word, before: [{cut: 2}, {close: true}]}]")
		body := `{"model":"m","max_tokens":9,"input":"hi","messages":[{"role":"user","content":"hi"}],"stream":true}`
		resp := request(t, http.MethodPost, base+path, "k", body)
		if n := strings.Count(string(resp.body), "data: "); n != 2 || !errors.Is(resp.err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %d events, %v", path, n, resp.err)
		}
		if resp := request(t, http.MethodPost, base+path, "k", body); resp.err == nil {
			t.Errorf("%s: status %d", path, resp.status)
		}
		resp = request(t, http.MethodPost, base+path, "k", body)
		if got := text(readEvents(t, bytes.NewReader(resp.body))); got != "a long word" {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// TestEndless: what has no end is sent until the client leaves, and then ends.
func TestEndless(t *testing.T) {
	for _, kind := range []string{"endless: events", "endless: line", "endless: pings", "hang: true", "{status: 500, slow: 1ms, body: " + strings.Repeat("x", 1<<16) + "}"} {
		t.Run(kind[:min(len(kind), 16)], func(t *testing.T) {
			fault := kind
			if fault[0] != '{' {
				fault = "{" + kind + "}"
			}
			s, err := Parse("script.yaml", []byte("turns: [{before: ["+fault+"]}]"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			w := &leaver{header: http.Header{}, leave: leave, after: 100}
			if kind == "hang: true" {
				time.AfterFunc(time.Millisecond, leave)
			}
			req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/responses", strings.NewReader(`{"model":"m","input":"hi"}`))
			req.Header.Set("X-Api-Key", "k")
			New(s, nil).ServeHTTP(w, req) // returns only because the client left
			if ctx.Err() == nil {
				t.Error("it ended by itself")
			}
			if kind == "endless: line" && w.ends != 1 {
				t.Error("the line has ends")
			}
		})
	}
}

// leaver is a client that leaves after some writes.
type leaver struct {
	header http.Header
	ends   int // of lines
	leave  func()
	after  int
}

func (l *leaver) Header() http.Header { return l.header }
func (l *leaver) WriteHeader(int)     {}
func (l *leaver) Flush()              {}

func (l *leaver) Write(p []byte) (int, error) {
	if l.after--; l.after == 0 {
		l.leave()
	}
	if l.after < 0 {
		return 0, io.ErrClosedPipe
	}
	l.ends += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

// TestBomb: a bomb is small as it is sent, and large when it is unpacked.
func TestBomb(t *testing.T) {
	_, base := serve(t, "turns: [{before: [{bomb: 3000000}]}]")
	resp := request(t, http.MethodPost, base+"/v1/responses", "k", `{"model":"m","input":"hi"}`)
	unpacked, err := gzip.NewReader(bytes.NewReader(resp.body))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, unpacked); err != nil || n != 3_000_000 || len(resp.body)*100 > 3_000_000 {
		t.Errorf("%d bytes in %d, %v", n, len(resp.body), err)
	}
}

// TestRedirect: a redirect names its target.
func TestRedirect(t *testing.T) {
	_, base := serve(t, "turns: [{before: [{redirect: \"http://127.0.0.1:1/v1/responses\"}, {redirect: /x, status: 302}]}]")
	for _, want := range []struct {
		status int
		target string
	}{{307, "http://127.0.0.1:1/v1/responses"}, {302, "/x"}} {
		resp := request(t, http.MethodPost, base+"/v1/responses", "k", `{"model":"m","input":"hi"}`)
		if resp.status != want.status || resp.header.Get("Location") != want.target {
			t.Errorf("%d %s, want %v", resp.status, resp.header.Get("Location"), want)
		}
	}
}

// TestUsage: an answer says what the script says it used, or nothing.
func TestUsage(t *testing.T) {
	_, base := serve(t, `
conversations:
  - {match: cheap, turns: [{say: x, usage: {input: -5, cached: 9007199254740993, output: 0}}]}
  - {match: free, turns: [{say: x, usage: {omit: true}}]}
`)
	for prompt, want := range map[string]string{"cheap": `"input_tokens":-5`, "free": "", "honest": `"input_tokens":`} {
		for _, api := range []API{responses, messages} {
			_, events := (&client{t: t, base: base, api: api, prompt: prompt, key: "k"}).send()
			got := object(events)
			if !strings.Contains(got, want) || want == "" && strings.Contains(got, "usage") {
				t.Errorf("%s, %s: %s", api, prompt, got)
			}
		}
	}
}

// TestServe: the command's server says where it is, reports each request without
// secrets, and ends when it is told to.
func TestServe(t *testing.T) {
	s, err := Parse("script.yaml", []byte("turns: [{say: hello}]"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Run(ctx, s, "127.0.0.1:0", out) }()
	lines := make(chan string, 8)
	go func() {
		for buf := make([]byte, 4096); ; {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			lines <- string(buf[:n])
		}
	}()
	base := strings.TrimSpace(<-lines)
	request(t, http.MethodPost, base+"/v1/responses", "sk-canary", `{"model":"m","input":"sk-canary","tools":[{"type":"web_search"}]}`)
	if line := <-lines; strings.Contains(line, "sk-canary") || !strings.Contains(line, `"tools":["web_search"]`) || !strings.Contains(line, `"status":200`) {
		t.Error(line)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	in.Close()
	if conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://")); err == nil {
		conn.Close()
		t.Error("the server still listens")
	}
}
