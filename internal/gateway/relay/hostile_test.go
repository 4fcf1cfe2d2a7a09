package relay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// leaks returns the forms of the key that a text contains. Line ends and the
// frames of chunks do not hide it.
func leaks(text string) []string {
	reversed := []byte(key)
	slices.Reverse(reversed)
	forms := map[string]string{
		"plain": key, "hex": hex.EncodeToString([]byte(key)), "reversed": string(reversed),
		"base64": base64.StdEncoding.EncodeToString([]byte(key))[:36], "base64, shifted": base64.StdEncoding.EncodeToString([]byte("x" + key))[4:36],
	}
	var out []string
	for name, form := range forms {
		if strings.Contains(text, form) || strings.Contains(strings.ReplaceAll(text, "\n", ""), form) {
			out = append(out, name)
		}
	}
	return out
}

// TestKeyStaysInTheParent is row N19: a provider that repeats the key wherever it
// can. A reverse proxy that only adds the key lets the agent see it.
func TestKeyStaysInTheParent(t *testing.T) {
	forms := []string{key, hex.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte("x" + key))}
	reversed := []byte(key)
	slices.Reverse(reversed)
	forms = append(forms, string(reversed))
	handler := func(status int, kind, form string, split bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("X-Request-Id", form)
			w.Header().Set("Set-Cookie", form)
			w.Header().Set("Location", "/"+form)
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Trailer", "X-Key")
			w.WriteHeader(status)
			text := `data: {"type":"error","message":"` + form + `"}` + "\n\n"
			if kind == "application/json" {
				text = `{"error":{"message":"` + form + `"}}`
			}
			for i := range text {
				if io.WriteString(w, text[i:i+1]); split {
					w.(http.Flusher).Flush()
				}
			}
			w.Header().Set("X-Key", form)
		}
	}
	for api := range apis {
		t.Run(string(api), func(t *testing.T) { testKeyStays(t, api, forms, handler) })
	}
}

func testKeyStays(t *testing.T, api API, forms []string, handler func(status int, kind, form string, split bool) http.HandlerFunc) {
	line, body := "POST "+apis[api].path, apis[api].body
	for _, form := range forms {
		for _, c := range []struct {
			status int
			kind   string
			split  bool
		}{
			{200, "text/event-stream", false}, {200, "text/event-stream", true}, {200, "application/json", false}, {200, "text/html", false},
			{400, "application/json", true}, {401, "application/json", false}, {403, "text/plain", false}, {302, "text/html", false}, {418, "application/json", false},
		} {
			base := provider(t, handler(c.status, c.kind, form, c.split))
			weak := httptest.NewServer(weakProxy(base))
			if got := raw(t, weak.Listener.Addr().String(), request1(line, "Connection: close\r\n", body)); len(leaks(got)) == 0 {
				t.Errorf("the weak set-up shows no key: %s", got)
			}
			weak.Close()
			g := start(t, newRelay(t, config(api, base))).listen()
			got := raw(t, g.address, request1(line, "Connection: close\r\n", body))
			if found := leaks(got); len(found) > 0 || len(got) < 10 {
				t.Errorf("%d %s: the agent sees %v: %s", c.status, c.kind, found, got)
			}
			rest := string(g.kept())
			if err := g.Err(); err != nil {
				rest += err.Error()
			}
			for _, e := range g.ledger {
				rest += e.Target + e.Reason
			}
			if found := leaks(rest); len(found) > 0 {
				t.Errorf("%d %s: what is stored has %v: %s", c.status, c.kind, found, rest)
			}
		}
	}
}

// endless yields a text for ever, and counts what was read.
type endless struct {
	text string
	n    int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text)
	for n < len(p) {
		n += copy(p[n:], p[:n])
	}
	e.n += int64(n)
	return n, nil
}

func (*endless) Close() error { return nil }

// bombOf packs so many megabytes of a byte: one of them, again and again.
func bombOf(filler byte, megabytes int) string {
	var one bytes.Buffer
	z := gzip.NewWriter(&one)
	z.Write(bytes.Repeat([]byte{filler}, 1<<20))
	z.Close()
	return strings.Repeat(one.String(), megabytes)
}

// TestHostileProvider: whatever a provider sends is bounded and named.
func TestHostileProvider(t *testing.T) {
	for api := range apis {
		t.Run(string(api), func(t *testing.T) { testHostileProvider(t, api) })
	}
}

func testHostileProvider(t *testing.T, api API) {
	body, stream := apis[api].body, apis[api].stream
	bomb := bombOf(0, 64)
	for _, c := range []struct {
		name, header string
		status       int
		text         string
		forever      bool
		reason       reason
		bound        int64
		fails        bool
	}{
		{"endless event", eventStream, 200, "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", true, responseLong, 20 << 20, false},
		{"endless stream", eventStream, 200, ": " + strings.Repeat("x", 32<<10) + "\n\n", true, responseLong, 80 << 20, false},
		{"endless JSON", "Content-Type: application/json", 200, " ", true, responseLong, 40 << 20, false},
		{"endless error", "Content-Type: application/json", 400, " ", true, providerError, 1 << 20, false},
		{"bomb", eventStream + "\nContent-Encoding: gzip", 200, bomb, false, providerFailed, 0, true},
		{"bomb in an error", "Content-Encoding: gzip", 400, bomb, false, providerError, 0, false},
		{"redirect", "Location: https://evil.example/", 307, "", false, providerFailed, 0, true},
		{"no content", "", 204, "", false, providerFailed, 0, true},
		{"page", "Content-Type: text/html", 200, "<html>", false, providerFailed, 0, true},
		{"cut stream", eventStream, 200, stream[:strings.Index(stream, "\n\n")], false, responseCut, 0, false},
		{"wrong usage", eventStream, 200, strings.ReplaceAll(stream, ":100", ":-100"), false, "", 0, false},
	} {
		source := &endless{text: c.text}
		asked := 0
		r := with(t, api, func(*http.Request) (*http.Response, error) {
			asked++
			response := respond(c.status, c.header, c.text)
			if c.forever {
				response.Body = source
			}
			return response, nil
		})
		g := start(t, r)
		w := g.call(t.Context(), body)
		if got := g.reasons(); len(got) != 1 || got[0] != string(c.reason) {
			t.Errorf("%s: %v", c.name, got)
		}
		if source.n > max(c.bound, 0) && c.forever || asked != 1 || (g.Err() != nil) != c.fails || len(g.kept()) > 1<<20 {
			t.Errorf("%s: %d bytes read, asked %d times, %v, a trace of %d bytes", c.name, source.n, asked, g.Err(), len(g.kept()))
		}
		if loc := w.Header().Get("Location") + w.Header().Get("Content-Encoding"); loc != "" {
			t.Errorf("%s: the agent gets %s", c.name, loc)
		}
		for name, n := range g.Usage() {
			if n < 0 || n > 1<<32 {
				t.Errorf("%s: %s is %d", c.name, name, n)
			}
		}
		var all int64
		if !g.pool.Resize(&all, maxResponses) || g.room.free != maxBodies {
			t.Errorf("%s: memory is not given back", c.name)
		}
	}
}

// TestHostileBodies is row N21.
func TestHostileBodies(t *testing.T) {
	var small bytes.Buffer
	bomb := bombOf(' ', MaxBody>>20+1)
	z := gzip.NewWriter(&small)
	io.WriteString(z, codexBody)
	z.Close()
	asked := 0
	base := provider(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, codexStream)
	})
	g := start(t, newRelay(t, config(Responses, base))).listen()
	line := "POST /v1/responses HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: " + token + "\r\n"
	zipped := "Content-Encoding: gzip\r\n"
	chunk := "10000\r\n" + strings.Repeat(" ", 1<<16) + "\r\n"
	for name, c := range map[string]struct {
		text   string
		status string
	}{
		"2 GB":          {line + "Content-Length: 2147483648\r\n\r\n{}", "400 "},
		"chunks":        {line + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, MaxBody>>16+2), "400 "},
		"bomb":          {line + zipped + "Content-Length: " + strconv.Itoa(len(bomb)) + "\r\n\r\n" + bomb, "400 "},
		"not gzip":      {line + zipped + "Content-Length: 2\r\n\r\n{}", "400 "},
		"two encodings": {line + zipped + zipped + "Content-Length: " + strconv.Itoa(small.Len()) + "\r\n\r\n" + small.String(), "400 "},
		"gzip":          {line + zipped + "Content-Length: " + strconv.Itoa(small.Len()) + "\r\n\r\n" + small.String(), "200 "},
		"chunked":       {line + "Transfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(codexBody)), 16) + "\r\n" + codexBody + "\r\n0\r\n\r\n", "200 "},
	} {
		before := asked
		got := raw(t, g.address, c.text)
		if !strings.HasPrefix(got, c.status) || (asked > before) != (c.status == "200 ") {
			t.Errorf("%s: %.300s", name, got)
		}
		if g.room.free != maxBodies {
			t.Errorf("%s: memory is not given back", name)
		}
	}
}

// pipeListener hands out one connection.
type pipeListener struct{ conns chan net.Conn }

func (l pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l pipeListener) Close() error { return nil }
func (pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestSlowBody: an agent that stops within a body is cut off, but not while it
// stands still for the provider.
func TestSlowBody(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := start(t, with(t, Responses, func(*http.Request) (*http.Response, error) {
				return respond(200, eventStream, codexStream), nil
			}))
			here, there := net.Pipe()
			l := pipeListener{make(chan net.Conn, 1)}
			l.conns <- there
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- g.Serve(ctx, l) }()
			text := request1("POST /v1/responses", "Connection: close\r\n", codexBody)
			var response bytes.Buffer
			read := make(chan struct{})
			go func() { io.Copy(&response, here); close(read) }()
			io.WriteString(here, text[:len(text)-5])
			var hold *held
			if frozen {
				hold, _ = g.holdAgent(ctx)
			}
			time.Sleep(10 * time.Minute)
			if hold.end(); frozen {
				io.WriteString(here, text[len(text)-5:])
			}
			<-read
			if got := response.String(); strings.HasPrefix(got, "HTTP/1.1 200") != frozen || frozen != strings.Contains(got, "response.completed") {
				t.Errorf("frozen %v: %q", frozen, got)
			}
			cancel()
			close(l.conns)
			<-done
		})
	}
}

// TestHoldFails: an engine that cannot stop the agent fails the attempt.
func TestHoldFails(t *testing.T) {
	g := start(t, with(t, Responses, func(*http.Request) (*http.Response, error) { return respond(503, "", ""), nil }))
	g.hold = func(context.Context) (func(), error) { return nil, io.ErrClosedPipe }
	if g.call(t.Context(), codexBody); g.Err() == nil || g.Held() > time.Minute {
		t.Errorf("%v, held %v", g.Err(), g.Held())
	}
}
