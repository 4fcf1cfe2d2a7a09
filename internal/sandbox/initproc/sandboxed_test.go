package initproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

const proxyAddress = "127.0.0.1:61080"

// askAll is an agent that makes many requests at once and prints what was wrong.
const askAll = `
import http.client, threading
def ask(i):
    c = http.client.HTTPConnection("127.0.0.1", 61080, timeout=60)
    body = b"x" * (10 << 20 if i == 0 else 1000 + i)
    c.request("POST", "/", body)
    got = c.getresponse().read()
    if got != body: print("request", i, "got", len(got), "bytes")
threads = [threading.Thread(target=ask, args=(i,)) for i in range(200)]
for t in threads: t.start()
for t in threads: t.join()
print("done")
`

// flood is an agent that opens more connections than are carried, and keeps them.
const flood = `
import resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
kept = []
for i in range(1500):
    s = socket.socket(); s.setblocking(False)
    try: s.connect(("127.0.0.1", 61080))
    except BlockingIOError: pass
    kept.append(s)
print("open", flush=True)
time.sleep(600)
`

// python runs a script in a sandbox, as a user without rights.
func python(script string) Command {
	return Command{Argv: []string{"/usr/bin/env", "python3", "-c", script}, Inherit: true, User: sandbox.Nobody, Timeout: hung}
}

// TestListenInASandbox: agents in a sandbox without a network reach the parent,
// also after a time in which the sandbox was frozen and beside an agent that
// floods it; nobody in another sandbox does.
func TestListenInASandbox(t *testing.T) { enginetest.Each(t, listenInASandbox) }

func listenInASandbox(t *testing.T, e enginetest.Engine) {
	box, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Init: true, User: &sandbox.Nobody,
		Limits: sandbox.Limits{Output: 1 << 40, Pids: 512}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	server := serveEcho(t, c)
	defer server.Close()
	run := func(c *Client, script string) string {
		var out bytes.Buffer
		cmd := python(script)
		cmd.Stdout, cmd.Stderr = &out, &out
		if _, err := c.Run(t.Context(), cmd); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	asked := make(chan string)
	go func() { asked <- run(c, askAll) }()
	f := box.(sandbox.Freezer)
	c.Suspend()
	if err := f.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // whatever is under way waits
	if err := f.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Resume()
	if got := <-asked; got != "done\n" {
		t.Errorf("after the freeze: %s", got)
	}
	other := openSandbox(t, e, sandbox.Nobody, nil)
	if got := run(other, askAll); strings.Count(got, "\nConnectionRefusedError: ") != 200 {
		t.Errorf("another sandbox: %.200s", got)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := errors.New("the flood was watched long enough")
	cmd := python(flood)
	cmd.Stdout = cancelling{stop, ended}
	if _, err := c.Run(ctx, cmd); !errors.Is(err, ended) {
		t.Errorf("the flood: %v", err)
	}
	if got := run(c, askAll); got != "done\n" {
		t.Errorf("after the flood: %s", got)
	}
}

// cancelling ends a context at the first write.
type cancelling struct {
	cancel context.CancelCauseFunc
	cause  error
}

func (c cancelling) Write(p []byte) (int, error) { c.cancel(c.cause); return len(p), nil }

// serveEcho answers requests of a sandbox with their bodies.
func serveEcho(t testing.TB, c *Client) *http.Server {
	t.Helper()
	ln, err := c.Listen(t.Context(), proxyAddress)
	if err != nil {
		t.Fatal(err)
	}
	server := echoServer()
	go func() { _ = server.Serve(ln) }()
	return server
}

func echoServer() *http.Server {
	return &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // whole: the server gives the rest up when an answer begins
		_, _ = w.Write(b)
	})}
}

// roundTrips times one byte there and back, in microseconds, over one connection.
const roundTrips = `
import socket, time
s = socket.create_connection(("127.0.0.1", 61080)); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for i in range(%d):
    began = time.perf_counter(); s.send(b"x"); s.recv(1); print(int((time.perf_counter() - began) * 1e6))
`

// receiving reads as much as is sent, and prints MB/s.
const receiving = `
import socket, time
s = socket.create_connection(("127.0.0.1", 61080)); n = 0; began = time.perf_counter(); b = bytearray(1 << 20)
while k := s.recv_into(b): n += k
print(int(n / 1e6 / (time.perf_counter() - began)))
`

// BenchmarkListen measures connections that are carried from a sandbox: the round
// trip of a byte, the throughput of one, and 200 requests at once on connections
// of their own. The client is a Python script, whose own time is a part of it.
func BenchmarkListen(b *testing.B) {
	for _, k := range enginetest.Kinds() {
		b.Run(k.Name, func(b *testing.B) { benchListen(b, k.Open(b)) })
	}
}

func benchListen(b *testing.B, e sandbox.Engine) {
	c := openSandbox(b, e, sandbox.Nobody, nil)
	output := func(b *testing.B, script string) []int {
		b.Helper()
		var out bytes.Buffer
		cmd := python(script)
		cmd.Stdout, cmd.Stderr = &out, &out
		if _, err := c.Run(b.Context(), cmd); err != nil {
			b.Fatal(err)
		}
		var all []int
		for line := range strings.Lines(out.String()) {
			var n int
			if _, err := fmt.Sscan(line, &n); err != nil {
				b.Fatalf("%q", &out)
			}
			all = append(all, n)
		}
		return all
	}
	serve := func(b *testing.B, f func(net.Listener)) {
		ln, err := c.Listen(b.Context(), proxyAddress)
		for began := time.Now(); err != nil && time.Since(began) < hung; time.Sleep(time.Millisecond) { // the last one may be closing
			ln, err = c.Listen(b.Context(), proxyAddress)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = ln.Close() })
		go f(ln)
	}
	each := func(f func(net.Conn)) func(net.Listener) {
		return func(ln net.Listener) {
			for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
				go func() { f(conn); _ = conn.Close() }()
			}
		}
	}
	b.Run("round trip", func(b *testing.B) {
		serve(b, each(func(conn net.Conn) { _, _ = io.Copy(conn, conn) }))
		for b.Loop() {
			times := output(b, fmt.Sprintf(roundTrips, 2000))
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2]), "p50-us")
			b.ReportMetric(float64(times[len(times)*99/100]), "p99-us")
		}
	})
	b.Run("throughput", func(b *testing.B) {
		serve(b, each(func(conn net.Conn) { _, _ = io.Copy(conn, io.LimitReader(zeros{}, 256<<20)) }))
		for b.Loop() {
			b.ReportMetric(float64(output(b, receiving)[0]), "MB/s")
		}
	})
	b.Run("200 at once", func(b *testing.B) {
		serve(b, func(ln net.Listener) { _ = echoServer().Serve(ln) })
		script := strings.Replace(askAll, "10 << 20 if i == 0 else 1000 + i", "1000", 1)
		script = strings.Replace(script, "threads = ", "import time; began = time.perf_counter(); threads = ", 1)
		script = strings.Replace(script, `print("done")`, `print(int((time.perf_counter() - began) * 1e3))`, 1)
		for b.Loop() {
			b.ReportMetric(float64(output(b, script)[0]), "ms")
		}
	})
}
