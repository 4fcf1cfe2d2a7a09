package initproc

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Serve makes this process the init of its sandbox and answers requests on its
// standard input and output until they end; then every other process of the
// sandbox is dead. It must be called before anything is started, in a program
// without cgo. The error is what kept it from being safe.
func Serve() error { return serve(hardenings()) }

func serve(steps []hardening) error {
	in, out, err := takeStreams()
	if err != nil {
		return fmt.Errorf("starting init: %w", err)
	}
	for _, s := range steps {
		if err := s.apply(); err != nil {
			return fmt.Errorf("starting init: %s: %w", s.name, err)
		}
	}
	p := newProcesses()
	if p.switches, err = switchesUsers(); err != nil {
		return fmt.Errorf("starting init: %w", err)
	}
	if groups, err := os.Getgroups(); err != nil || !p.switches && len(groups) > 0 && (len(groups) > 1 || groups[0] != os.Getgid()) {
		return errors.Join(fmt.Errorf("starting init: it has supplementary groups %v and cannot drop them", groups), err)
	}
	go p.reap()
	err = serveConn(newStream(in, out), p.handler())
	return errors.Join(err, p.killAll())
}

// serveConn answers requests on one connection until that ends.
func serveConn(conn net.Conn, h http.Handler) error {
	l := &listener{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conn <- &notifyConn{Conn: conn, close: sync.OnceFunc(func() { close(l.closed) })}
	s := http.Server{Handler: h, Protocols: http2Only(), MaxHeaderBytes: maxReply, ErrorLog: log.New(io.Discard, "", 0),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: frameSize,
			MaxReceiveBufferPerConnection: serverConnection, MaxReceiveBufferPerStream: serverWindow}}
	if err := s.Serve(l); !errors.Is(err, io.EOF) {
		return fmt.Errorf("serving requests: %w", err)
	}
	return nil
}

func http2Only() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// listener accepts one connection, and then its end.
type listener struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, io.EOF
	}
}

func (l *listener) Close() error   { return nil }
func (l *listener) Addr() net.Addr { return address{} }

// notifyConn tells of its end.
type notifyConn struct {
	net.Conn
	close func()
}

func (c *notifyConn) Close() error {
	defer c.close()
	return c.Conn.Close()
}

// stream makes a connection of a reader and a writer without deadlines.
type stream struct {
	io.Reader
	io.Writer
	close func() error
}

func newStream(r io.ReadCloser, w io.WriteCloser) net.Conn {
	return &stream{r, w, func() error { return errors.Join(w.Close(), r.Close()) }}
}

func (s *stream) Close() error                     { return s.close() }
func (s *stream) LocalAddr() net.Addr              { return address{} }
func (s *stream) RemoteAddr() net.Addr             { return address{} }
func (s *stream) SetDeadline(time.Time) error      { return nil }
func (s *stream) SetReadDeadline(time.Time) error  { return nil }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

// address is that of a sandbox's standard streams.
type address struct{}

func (address) Network() string { return "sandbox" }
func (address) String() string  { return "init" }

// handler answers the requests of the package documentation.
func (p *processes) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /commands", p.handleStart)
	mux.HandleFunc("PUT /commands/{id}/stdin", p.withCommand(func(c *command, _ http.ResponseWriter, r *http.Request) {
		c.receive(r.Body)
	}))
	mux.HandleFunc("GET /commands/{id}/stdout", p.withCommand(func(c *command, w http.ResponseWriter, _ *http.Request) {
		c.stdout.send(w)
	}))
	mux.HandleFunc("GET /commands/{id}/stderr", p.withCommand(func(c *command, w http.ResponseWriter, _ *http.Request) {
		c.stderr.send(w)
	}))
	mux.HandleFunc("GET /commands/{id}", p.withCommand(p.handleReport))
	mux.HandleFunc("DELETE /commands/{id}", p.withCommand(func(c *command, w http.ResponseWriter, _ *http.Request) {
		answer(w, p.kill(c))
	}))
	mux.HandleFunc("DELETE /users/{uid}", func(w http.ResponseWriter, r *http.Request) {
		uid, err := strconv.ParseUint(r.PathValue("uid"), 10, 32)
		if err == nil {
			err = p.killUser(int(uid))
		}
		answer(w, err)
	})
	mux.HandleFunc("DELETE /processes", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, p.killAll())
	})
	return mux
}

func (p *processes) handleStart(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxStart))
	if err != nil {
		answer(w, err)
		return
	}
	s, err := decode[start](b)
	if err != nil {
		answer(w, err)
		return
	}
	id, err := p.start(s)
	var errno unix.Errno
	switch {
	case errors.As(err, &errno):
		reply(w, started{Errno: int(errno), Message: clip(err.Error())})
	case err != nil:
		answer(w, err)
	default:
		reply(w, started{ID: id})
	}
}

func (p *processes) handleReport(c *command, w http.ResponseWriter, r *http.Request) {
	for _, done := range []<-chan struct{}{c.ended, c.stdout.done, c.stderr.done} {
		select {
		case <-done:
		case <-r.Context().Done():
			return
		}
	}
	p.forget(c)
	rep := c.report
	rep.Stdout, rep.Stderr = c.stdout.count, c.stderr.count
	reply(w, rep)
}

// withCommand finds the command that a request names.
func (p *processes) withCommand(f func(*command, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
		c := p.find(id)
		if err != nil || c == nil {
			answer(w, fmt.Errorf("there is no command %q", r.PathValue("id")))
			return
		}
		f(c, w, r)
	}
}

// answer says that a request was carried out, or why not.
func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, clip(err.Error()), http.StatusBadRequest)
	}
}

func reply[M message](w http.ResponseWriter, m M) {
	b, err := encode(m)
	if err != nil {
		answer(w, err)
		return
	}
	_, _ = w.Write(b) // the connection has ended if this fails
}

func clip(s string) string { return s[:min(len(s), maxMessage/8)] }
