package initproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/sandbox/wire"
)

// listen makes an init in this process listen at a free address of the loopback.
func listen(t testing.TB, c *Client) net.Listener {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ln, err := c.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	if ln.Addr().String() != address {
		t.Errorf("the address is %s, want %s", ln.Addr(), address)
	}
	return ln
}

// dial connects as the agent does, and gives up when the test hangs.
func dial(t testing.TB, address string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, hung)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(hung))
	return c.(*net.TCPConn)
}

// pair returns both ends of a new connection: the agent's and the parent's.
func pair(t testing.TB, ln net.Listener) (agent *net.TCPConn, parent net.Conn) {
	t.Helper()
	agent = dial(t, ln.Addr().String())
	parent, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Close() })
	_ = parent.SetDeadline(time.Now().Add(hung))
	return agent, parent
}

func closeWrite(t testing.TB, c net.Conn) {
	t.Helper()
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
}

// TestListenServesHTTP: the standard library's server works on the listener, with
// many requests at once and large bodies.
func TestListenServesHTTP(t *testing.T) {
	ln := listen(t, connect(t))
	server := echoServer()
	served := make(chan error)
	go func() { served <- server.Serve(ln) }()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			size := 1000
			if i%50 == 0 {
				size = 10 << 20
			}
			want := bytes.Repeat([]byte{byte(i)}, size)
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
			defer client.CloseIdleConnections()
			res, err := client.Post("http://"+ln.Addr().String(), "", bytes.NewReader(want))
			if err != nil {
				t.Error(err)
				return
			}
			got, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("request %d: %d of %d bytes, %v", i, len(got), len(want), err)
			}
		})
	}
	wg.Wait()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// TestConnectionsEnd closes and breaks connections in every way: only a regular
// end looks like one, and what was written before it arrives.
func TestConnectionsEnd(t *testing.T) {
	ln := listen(t, connect(t))
	read := func(who string, c net.Conn, want string) {
		t.Helper()
		if got, err := io.ReadAll(c); err != nil || string(got) != want {
			t.Errorf("%s reads %d bytes, %v", who, len(got), err)
		}
	}
	write := func(c net.Conn, text string) {
		t.Helper()
		if _, err := io.WriteString(c, text); err != nil {
			t.Error(err)
		}
	}
	large := strings.Repeat("x", 2<<20)
	for name, check := range map[string]func(agent *net.TCPConn, parent net.Conn){
		"the agent asks": func(agent *net.TCPConn, parent net.Conn) {
			write(agent, "question")
			closeWrite(t, agent)
			read("the parent", parent, "question")
			go func() { write(parent, large); closeWrite(t, parent) }()
			read("the agent", agent, large)
		},
		"the parent greets": func(agent *net.TCPConn, parent net.Conn) {
			write(parent, "greeting")
			closeWrite(t, parent)
			read("the agent", agent, "greeting")
			go func() { write(agent, large); _ = agent.Close() }()
			read("the parent", parent, large)
		},
		"the parent closes": func(agent *net.TCPConn, parent net.Conn) { // without a word from the agent
			go func() { write(parent, large); _ = parent.Close() }()
			read("the agent", agent, large)
			if _, err := parent.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("reading what is closed: %v", err)
			}
		},
		"the agent resets": func(agent *net.TCPConn, parent net.Conn) {
			_ = errors.Join(agent.SetLinger(0), agent.Close())
			if _, err := io.ReadAll(parent); err == nil {
				t.Error("a reset by the agent looks like an end")
			}
		},
		"the agent closes": func(agent *net.TCPConn, parent net.Conn) { // does not read any more, either
			_ = agent.Close()
			read("the parent", parent, "")
			for err := error(nil); err == nil; {
				_, err = parent.Write(make([]byte, 1000))
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("writing to an agent that is gone never fails")
				}
			}
		},
	} {
		t.Run(name, func(*testing.T) { check(pair(t, ln)) })
	}
}

// TestConnectionDeadlines: deadlines end a Read and a Write that wait, and later
// ones can do without.
func TestConnectionDeadlines(t *testing.T) {
	agent, parent := pair(t, listen(t, connect(t)))
	blocked := make(chan error)
	go func() { _, err := parent.Read(make([]byte, 1)); blocked <- err }()
	_ = parent.SetReadDeadline(time.Unix(1, 0))
	if err := <-blocked; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading past the deadline: %v", err)
	}
	go func() {
		for { // the agent does not read
			if _, err := parent.Write(make([]byte, 1<<20)); err != nil {
				blocked <- err
				return
			}
		}
	}()
	time.AfterFunc(100*time.Millisecond, func() { _ = parent.SetWriteDeadline(time.Unix(1, 0)) })
	if err := <-blocked; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing past the deadline: %v", err)
	}
	_ = parent.SetReadDeadline(time.Time{})
	if _, err := agent.Write([]byte("late")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(parent, got); err != nil || string(got) != "late" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestConnectionsStall: as many connections as can be open, many of which are read
// at neither end though there is much to read, hold up neither one that is, nor a command.
// One more is accepted when one is closed.
func TestConnectionsStall(t *testing.T) {
	c := connect(t)
	ln := listen(t, c)
	other := listen(t, c) // holds a few of the places
	agent, parent := pair(t, other)
	var stalled []net.Conn
	var first net.Conn
	for len(stalled) < maxConnections-9 {
		a, p := pair(t, ln)
		_ = errors.Join(a.SetReadBuffer(1<<16), a.SetWriteBuffer(1<<16)) // less to fill
		if first == nil {
			first = a
		}
		if len(stalled) < 48 { // three times what the library's own window has room for
			go func() { _, _ = io.Copy(p, zeros{}) }()
		}
		if len(stalled) < 16 { // the parent has room for all on this way
			go func() { _, _ = io.Copy(a, zeros{}) }()
		}
		stalled = append(stalled, p)
	}
	go func() { _, _ = io.Copy(parent, parent) }()
	for range 10 {
		want := bytes.Repeat([]byte("x"), 10_000)
		if _, err := agent.Write(want); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(agent, want); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	cmd := shell("cat")
	cmd.Stdin, cmd.Stdout = strings.NewReader(strings.Repeat("x", 1<<18)), &out
	if res, err := c.Run(t.Context(), cmd); err != nil || out.Len() != 1<<18 {
		t.Errorf("%+v, %v, %d bytes", res, err, out.Len())
	}
	further := dial(t, ln.Addr().String()) // waits in the backlog
	accepted := make(chan net.Conn)
	go func() {
		p, err := ln.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- p
	}()
	select {
	case <-accepted:
		t.Errorf("more than %d connections are open", maxConnections)
	case <-time.After(50 * time.Millisecond): // shows nothing on a slow machine
	}
	_ = first.Close()
	_ = stalled[0].Close()
	select {
	case p := <-accepted:
		_ = errors.Join(p.Close(), further.Close())
	case <-time.After(hung):
		t.Error("a place that became free is not used")
	}
}

// TestFlood: an agent that connects again and again, and says nothing, leaves
// nothing behind.
func TestFlood(t *testing.T) {
	ln := listen(t, connect(t))
	var open, most atomic.Int64
	go func() {
		for {
			p, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				n := open.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				_, _ = io.Copy(p, p)
				open.Add(-1)
				_ = p.Close()
			}()
		}
	}()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 100 {
				conn, err := net.DialTimeout("tcp", ln.Addr().String(), hung)
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.Close()
			}
		})
	}
	wg.Wait()
	agent := dial(t, ln.Addr().String())
	if _, err := fmt.Fprint(agent, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(agent, make([]byte, 1)); err != nil {
		t.Errorf("after the flood: %v", err)
	}
	if most.Load() > maxConnections {
		t.Errorf("%d connections were open", most.Load())
	}
}

func TestListenerCloses(t *testing.T) {
	c := connect(t)
	ln := listen(t, c)
	agent, parent := pair(t, ln)
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting after Close: %v", err)
	}
	if _, err := fmt.Fprint(agent, "still here"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(parent, make([]byte, 10)); err != nil {
		t.Errorf("a connection ends with its listener: %v", err)
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) { // Close does not wait for init
		again, err := c.Listen(t.Context(), ln.Addr().String())
		if err == nil {
			_ = again.Close()
			break
		}
		if time.Since(began) > hung {
			t.Fatal(err)
		}
	}
	for _, address := range []string{"", "127.0.0.1", "127.0.0.1:0", "0.0.0.0:61080", "10.0.0.1:61080", "localhost:61080", "127.0.0.1:x/../y"} {
		if _, err := c.Listen(t.Context(), address); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("listening at %q: %v", address, err)
		}
	}
	ln = listen(t, c)
	_, parent = pair(t, ln)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := parent.Read(make([]byte, 1)); !errors.Is(err, ErrLost) {
		t.Errorf("reading after the end: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, ErrLost) {
		t.Errorf("accepting after the end: %v", err)
	}
	if _, err := c.Listen(t.Context(), ln.Addr().String()); !errors.Is(err, ErrLost) {
		t.Errorf("listening after the end: %v", err)
	}
}

// TestHostileInitCarries gives the listener an init that was taken over.
func TestHostileInitCarries(t *testing.T) {
	inner := func(f http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/connections/") {
				f(w, r)
			}
		}
	}
	accept := func(h http.HandlerFunc) (net.Conn, error) {
		ln, err := hostile(t, inner(h)).Listen(t.Context(), "127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		return ln.Accept()
	}
	for name, h := range map[string]http.HandlerFunc{
		"a refusal": func(w http.ResponseWriter, _ *http.Request) { wire.Answer(w, errors.New("no")) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere/", http.StatusFound)
		},
		"a crash": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"headers": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) },
	} {
		if _, err := accept(h); err == nil {
			t.Errorf("%s is a connection", name)
		}
	}
	parent, err := accept(func(w http.ResponseWriter, r *http.Request) { // endless, and never reads
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 4096))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(parent, 10<<20)); n != 10<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := parent.Close(); err != nil {
		t.Error(err)
	}
	if _, err := parent.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	many := atomic.Int64{}
	c := hostile(t, inner(func(w http.ResponseWriter, r *http.Request) { // any number of connections
		many.Add(1)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	ln, err := c.Listen(t.Context(), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for range maxConnections {
		if _, err := ln.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	if n := many.Load(); n > 2*maxConnections {
		t.Errorf("the parent opened %d streams", n)
	}
}

// TestKeepAlive: an init that is silent is lost, unless it is suspended.
func TestKeepAlive(t *testing.T) {
	quiet := func(t *testing.T, alive func(http.ResponseWriter, *http.Request)) *Client {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /alive", alive)
		mux.HandleFunc("DELETE /processes", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		return hostile(t, mux)
	}
	ask := func(c *Client, limit time.Duration) error {
		ctx, cancel := context.WithTimeoutCause(context.Background(), limit, errTimeout)
		defer cancel()
		return c.KillAll(ctx)
	}
	t.Run("answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := quiet(t, func(http.ResponseWriter, *http.Request) {})
			if err := ask(c, time.Hour); !errors.Is(err, errTimeout) {
				t.Error(err)
			}
		})
	})
	t.Run("is silent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := quiet(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			if err := ask(c, time.Hour); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		})
	})
	t.Run("is suspended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := quiet(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			c.Suspend()
			if err := ask(c, time.Hour); !errors.Is(err, errTimeout) {
				t.Error(err)
			}
			c.Resume()
			if err := ask(c, time.Hour); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		})
	})
	t.Run("does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() { // agrees on everything, then talks but lets nothing in
				_, _ = theirs.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
				for err := error(nil); err == nil; time.Sleep(time.Second) {
					_, err = theirs.Write([]byte("\x00\x00\x08\x06\x01\x00\x00\x00\x0012345678"))
				}
			}()
			_ = theirs.SetReadDeadline(time.Now().Add(time.Second))
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			c, err := newClient(ours)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if err := ask(c, time.Hour); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
			_ = errors.Join(c.Close(t.Context()), theirs.Close())
			time.Sleep(2 * time.Second) // until the talk ends
		})
	})
}
