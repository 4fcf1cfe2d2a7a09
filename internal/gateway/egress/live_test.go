package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"securebench/internal/gateway/ledger"
	"securebench/internal/memtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// silent connects an agent and a host in memory, through Serve and a fake
// clock. The host is silent for an hour in each direction's middle.
func silent(t *testing.T, start string, host func(net.Conn)) (net.Conn, *ledger.Ledger, func()) {
	l := &ledger.Ledger{}
	p := New(Config{Domains: []string{"ok.example"},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			near, far := net.Pipe()
			go host(far)
			return near, nil
		},
		Own: func() ([]netip.Addr, error) { return nil, nil }}, l)
	ctx, cancel := context.WithCancel(t.Context())
	ln := newPipes()
	near, far := net.Pipe()
	ln.conns <- far
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	go io.WriteString(near, start)
	return near, l, func() {
		near.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestSilentTunnel: no silence ends a tunnel, before or within its exchanges.
func TestSilentTunnel(t *testing.T) {
	cert := certificate(t)
	synctest.Test(t, func(t *testing.T) {
		agent, l, end := silent(t, "CONNECT ok.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", func(c net.Conn) {
			defer c.Close()
			server := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
			io.CopyN(io.Discard, server, 5)
			time.Sleep(time.Hour)
			io.WriteString(server, "answer")
			io.CopyN(io.Discard, server, 5)
		})
		r := bufio.NewReader(agent)
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatal(line, err)
		}
		r.ReadString('\n')
		time.Sleep(time.Hour) // before the handshake
		client := tls.Client(agent, &tls.Config{ServerName: "ok.example", InsecureSkipVerify: true})
		io.WriteString(client, "hello")
		answer := make([]byte, 6)
		if _, err := io.ReadFull(client, answer); err != nil || string(answer) != "answer" {
			t.Fatalf("%q, %v", answer, err)
		}
		time.Sleep(time.Hour)
		if _, err := io.WriteString(client, "again"); err != nil {
			t.Fatal(err)
		}
		end()
		if got := string(l.Lines()); !strings.Contains(got, `"allowed":true`) || !strings.Contains(got, `"took_ns":108`) {
			t.Error(got)
		}
	})
}

// TestSilentResponse is the same for a plain request: before the response and
// within it, and what comes is passed on as it comes.
func TestSilentResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent, _, end := silent(t, "GET http://ok.example/ HTTP/1.1\r\nHost: x\r\n\r\n", func(c net.Conn) {
			defer c.Close()
			http.ReadRequest(bufio.NewReader(c))
			time.Sleep(time.Hour)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\none")
			time.Sleep(time.Hour)
			io.WriteString(c, "two")
		})
		began := time.Now()
		//nolint:bodyclose // it ends with the connection
		res, err := http.ReadResponse(bufio.NewReader(agent), nil)
		if err != nil {
			t.Fatal(err)
		}
		one := make([]byte, 3)
		if _, err := io.ReadFull(res.Body, one); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		rest, err := io.ReadAll(res.Body)
		if err != nil || string(one)+string(rest) != "onetwo" || time.Since(began) != 2*time.Hour {
			t.Errorf("%q%q, %v after %v", one, rest, err, time.Since(began))
		}
		end()
	})
}

// TestHalfClose: the end of one direction of a tunnel leaves the other open.
func TestHalfClose(t *testing.T) {
	n := newInternet(t)
	first := hello(t, "ok.example")
	for name, run := range map[string]func(agent, host net.Conn){
		"agent": func(a, h net.Conn) {
			closeWrite(a)
			if b, err := io.ReadAll(h); err != nil || len(b) > 0 {
				t.Errorf("host reads %q, %v", b, err)
			}
			io.WriteString(h, "late")
			h.Close()
			if b, err := io.ReadAll(a); err != nil || string(b) != "late" {
				t.Errorf("agent reads %q, %v", b, err)
			}
		},
		"host": func(a, h net.Conn) {
			closeWrite(h)
			if b, err := io.ReadAll(a); err != nil || len(b) > 0 {
				t.Errorf("agent reads %q, %v", b, err)
			}
			io.WriteString(a, "late")
			a.Close()
			if b, err := io.ReadAll(h); err != nil || string(b) != "late" {
				t.Errorf("host reads %q, %v", b, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			hosts, done := make(chan net.Conn), make(chan struct{})
			n.raw = func(c net.Conn) {
				hosts <- c
				<-done
			}
			a := n.proxied()
			c := a.conn()
			io.WriteString(c, "CONNECT ok.example:443 HTTP/1.1\r\n\r\n"+string(first))
			h := <-hosts
			io.ReadFull(h, make([]byte, len(first)))
			h.Write([]byte("\x15\x03\x03\x00\x02\x01\x00")) // a server's first record, short
			r := bufio.NewReader(c)
			r.ReadString('\n')
			r.ReadString('\n')
			io.ReadFull(r, make([]byte, 7))
			run(c, h)
			close(done)
			if got := a.entries(1); got != "CONNECT ok.example:443 true" {
				t.Error(got)
			}
		})
	}
}

// TestParallel: honest work may be wide.
func TestParallel(t *testing.T) {
	n := newInternet(t)
	a := n.proxied()
	n.raw = func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
	var wg sync.WaitGroup
	for range 200 {
		c := a.conn()
		wg.Go(func() {
			io.WriteString(c, "GET http://ok.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if b, err := io.ReadAll(c); err != nil || !bytes.HasSuffix(b, []byte("ok")) {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
	wg.Wait()
}

// TestFlood: connections beyond the bound wait, and the memory that all of them
// together take stays small.
func TestFlood(t *testing.T) {
	n := newInternet(t)
	a := n.proxied()
	before := memtest.Kept()
	var conns []net.Conn
	for range maxConnections {
		c := a.conn()
		conns = append(conns, c)
		go io.WriteString(c, "GET http://ok.example/"+strings.Repeat("x", maxHead/2))
	}
	waiting := a.conn()
	io.WriteString(waiting, "GET http://ok.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
	waiting.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := waiting.Read(make([]byte, 1)); err == nil {
		t.Error("more connections are served than the bound")
	}
	if grown := memtest.Kept() - before; grown > maxConnections*(maxHead*4+bufferSize) {
		t.Errorf("%d bytes", grown)
	}
	conns[0].Close()
	waiting.SetReadDeadline(time.Time{})
	if line, err := bufio.NewReader(waiting).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("%q, %v", line, err)
	}
}

// TestEndless: heads, chunk lines, trailers and responses without an end are
// cut off (N21 in the proxy).
func TestEndless(t *testing.T) {
	n := newInternet(t)
	a := n.proxied()
	const post = "POST http://ok.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	for start, status := range map[string]string{"GET http://ok.example/": "431", "GET http://ok.example/ HTTP/1.1\r\n": "431", post: "400", post + "0\r\n": "431"} {
		c := a.conn()
		io.WriteString(c, start)
		go func() {
			for {
				if _, err := io.WriteString(c, "a:"+strings.Repeat("0", 1000)); err != nil {
					return
				}
			}
		}()
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, status) {
			t.Errorf("%.40q: %q, %v", start, line, err)
		}
		c.Close()
	}
	n = newInternet(t)
	a = n.proxied()
	n.raw = func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for {
			if _, err := fmt.Fprintf(c, "X: %s\r\n", strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	}
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	contains(t, "endless response head", a.get("http://ok.example/"), "502 ")
	if logged.Len() > 0 {
		t.Errorf("logged: %.200s", logged.Bytes())
	}
}

// TestExchanges shows what both sides see of one exchange.
func TestExchanges(t *testing.T) {
	const start = "GET http://ok.example/p?q HTTP/1.1\r\nHost: evil.example\r\n"
	tests := map[string]struct{ request, arrives, response, answer, reason string }{
		"hop by hop": {
			start + "Connection: X-Mine, close\r\nX-Mine: 1\r\nKeep-Alive: 1\r\nProxy-Connection: 1\r\nProxy-Authorization: 1\r\nTE: x\r\nTrailer: x\r\n" +
				"Upgrade: websocket\r\nHTTP2-Settings: x\r\nX-Theirs: 2\r\n\r\n",
			"GET /p?q HTTP/1.1\r\nHost: ok.example\r\nX-Theirs: 2\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 200 OK\r\nConnection: X-A\r\nX-A: 1\r\nProxy-Authenticate: 1\r\nUpgrade: h2c\r\nX-B: 2\r\nContent-Length: 2\r\n\r\nhi",
			"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\nX-B: 2\r\n\r\nhi", ""},
		"old client": {
			"GET http://ok.example HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: ok.example\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi", ""},
		"chunked both ways": {
			"POST http://ok.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: ok.example\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
			"HTTP/1.1 201 Created\r\n\r\nhi", "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", ""},
		"expects": {
			"PUT http://ok.example/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
			"PUT / HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
			"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", ""},
		"head": {
			"HEAD http://ok.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: ok.example\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", ""},
		"not modified": {start + "\r\n", "", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n", ""},
		"upgrade":      {start + "Upgrade: x\r\nConnection: upgrade\r\n\r\n", "", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "HTTP/1.1 502 ", "upstream"},
		"no HTTP":      {start + "\r\n", "", "SSH-2.0-x\r\n", "HTTP/1.1 502 ", "upstream"}, "nothing": {start + "\r\n", "", "", "HTTP/1.1 502 ", "upstream"},
		"smuggling response": {start + "\r\n", "", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 502 ", "upstream"},
		"two responses":      {start + "\r\n", "", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\nno", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", ""},
		"cut response":       {start + "\r\n", "", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi", ""},
		"other expectation":  {start + "Expect: x\r\n\r\n", "", "-", "HTTP/1.1 417 ", "malformed"},
		"trace":              {"TRACE http://ok.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "", "-", "HTTP/1.1 405 ", "method"},
		"connect with body":  {"CONNECT ok.example:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "", "-", "HTTP/1.1 400 ", "malformed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			arrived := make(chan string, 1)
			n.raw = func(c net.Conn) {
				b := make([]byte, max(len(tc.arrives), 1))
				io.ReadFull(c, b)
				io.WriteString(c, tc.response)
				closeWrite(c)
				arrived <- string(b)
				io.Copy(io.Discard, c)
			}
			a := n.proxied()
			answer := a.send(tc.request)
			if answer != tc.answer && (!strings.HasSuffix(tc.answer, " ") || !strings.HasPrefix(answer, tc.answer)) {
				t.Errorf("the agent gets %q, want %q", answer, tc.answer)
			}
			if tc.arrives != "" {
				if got := <-arrived; got != tc.arrives {
					t.Errorf("the host gets %q, want %q", got, tc.arrives)
				}
			}
			if got := a.entries(1); !strings.HasSuffix(got, " "+tc.reason) && (tc.reason != "" || !strings.HasSuffix(got, " true")) {
				t.Errorf("ledger: %s", got)
			}
		})
	}
}

// TestBadChunks: a body that turns out malformed ends the request before its
// end is passed on (N14).
func TestBadChunks(t *testing.T) {
	for _, body := range []string{"3;x=y\r\nabc\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n", "3\r\nabcX\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\n bad\r\n\r\n"} {
		request := "POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nTransfer-Encoding: chunked\r\n\r\n" + body
		for _, weak := range []bool{true, false} {
			n := newInternet(t)
			whole := make(chan bool, 1)
			n.raw = func(c net.Conn) {
				b, _ := io.ReadAll(c)
				whole <- bytes.HasSuffix(b, []byte(body)) || bytes.HasSuffix(b, []byte("\r\n0\r\n\r\n"))
			}
			a := n.proxied()
			if weak {
				a = n.weak()
			}
			answer := a.send(request)
			if got := <-whole; got != weak {
				t.Errorf("weak %t: %q arrives whole: %t", weak, body, got)
			}
			if !weak {
				contains(t, "answer", answer, "HTTP/1.1 400 ")
				contains(t, "ledger", a.entries(1), "POST ok.example:80 false malformed")
			}
		}
	}
}

// TestFailures: what the agent asked for was allowed, and did not work.
func TestFailures(t *testing.T) {
	n := newInternet(t)
	n.names["ok.example"] = nil
	a := n.proxied()
	contains(t, "no address", a.get("http://ok.example/"), "502 ")
	contains(t, "ledger", a.entries(1), "GET ok.example:80 true resolve")

	tried := 0
	l := &ledger.Ledger{}
	p := New(Config{Domains: []string{"ok.example"}, Own: func() ([]netip.Addr, error) { return nil, nil },
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			var out []netip.Addr
			for i := range byte(10) {
				out = append(out, netip.AddrFrom4([4]byte{93, 184, 216, i}))
			}
			return out, nil
		},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			tried++
			return nil, net.ErrClosed
		}}, l)
	b := &agent{t: t, ln: newPipes(), ledger: l}
	b.serve(func(ctx context.Context) { p.Serve(ctx, b.ln) })
	contains(t, "no connection", b.send("CONNECT ok.example:443 HTTP/1.1\r\n\r\n"), "HTTP/1.1 502 ")
	contains(t, "ledger", b.entries(1), "CONNECT ok.example:443 true dial")
	if tried != maxDials {
		t.Errorf("%d addresses were tried", tried)
	}
}

// TestServe: the end of the context ends everything, and a listener's own error
// is returned.
func TestServe(t *testing.T) {
	p := New(Config{}, &ledger.Ledger{})
	ln := newPipes()
	ln.Close()
	if err := p.Serve(t.Context(), ln); err == nil {
		t.Error("no error of a closed listener")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ln = newPipes()
	near, far := connection(t)
	defer near.Close()
	ln.conns <- far
	done := make(chan error)
	go func() { done <- p.Serve(ctx, ln) }()
	io.WriteString(near, "GET ")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestEarlyAnswer: a host may answer before it has read the whole body. The
// agent gets the answer, also if it keeps sending.
func TestEarlyAnswer(t *testing.T) {
	n := newInternet(t)
	n.raw = func(c net.Conn) {
		io.ReadFull(c, make([]byte, 50))
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, c)
	}
	for _, more := range []int{0, 100_000} {
		a := n.proxied()
		c := a.conn()
		io.WriteString(c, "POST http://ok.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc"+strings.Repeat("x", more))
		answer, err := io.ReadAll(c)
		if err != nil || string(answer) != "HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" {
			t.Errorf("%d: %q, %v", more, answer, err)
		}
		c.Close()
		contains(t, "ledger", a.entries(1), "POST ok.example:80 true")
	}
}

// TestPatient: what a host says before it is asked waits.
func TestPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		p := newPatient(&upstream{Conn: near})
		read := make(chan string, 1)
		go func() {
			b := make([]byte, 5)
			p.Read(b)
			read <- string(b)
		}()
		go io.WriteString(far, "early")
		synctest.Wait()
		if len(read) > 0 {
			t.Error("it is read before the first write")
		}
		go io.Copy(io.Discard, far)
		io.WriteString(p, "ask")
		if got := <-read; got != "early" {
			t.Errorf("%q", got)
		}
		p.Close()
	})
}
