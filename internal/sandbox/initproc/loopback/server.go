// Package loopback carries connections that processes of a sandbox make to an
// address of its loopback. A [Server] is the end in the sandbox, a part of its
// init. A [Parent] is the other end, which opens all streams.
//
//	POST   /listeners/{address}                   init listens
//	DELETE /listeners/{address}                   init no longer listens, and refuses the
//	                                              requests that wait for connections
//	GET    /listeners/{address}/connections/{id}  answered when init has accepted a
//	                                              connection: what arrives on it
//	PUT    /connections/{id}                      what is sent on it
//
// The parent chooses the numbers of connections. The end of a body ends only that
// direction; a stream that is reset resets the connection. Nothing but status
// codes and the content of connections is taken from the sandbox.
//
// Init accepts one connection more than was asked for; others wait in the
// backlog of the sandbox's kernel.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxListeners = 8
	acceptPause  = 100 * time.Millisecond // after an error: the sandbox may be short of something
	copySize     = 32 << 10
)

// Server is the end in the sandbox.
type Server struct {
	// Listen listens at an address; nil is the system's own way. Its connections
	// have the method CloseWrite.
	Listen func(address string) (net.Listener, error)

	mu        sync.Mutex
	listeners map[string]*source
	conns     map[uint64]*carried
}

// Handle adds the requests of the package documentation.
func (s *Server) Handle(mux *http.ServeMux) {
	mux.HandleFunc("POST /listeners/{address}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.open(r.PathValue("address")))
	})
	mux.HandleFunc("DELETE /listeners/{address}", func(_ http.ResponseWriter, r *http.Request) {
		s.close(r.PathValue("address"))
	})
	on := func(pattern string, f func(uint64, http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
			if err == nil {
				err = f(id, w, r)
			}
			answer(w, err)
		})
	}
	on("GET /listeners/{address}/connections/{id}", s.carryOut)
	on("PUT /connections/{id}", s.carryIn)
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// Close ends all listeners and connections.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		l.close()
	}
	for _, c := range s.conns {
		reset(c.conn)
	}
	s.listeners = nil
}

func check(address string) error {
	if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().IsLoopback() || a.Port() == 0 {
		return fmt.Errorf("%q is not an address of the loopback", address)
	}
	return nil
}

func (s *Server) open(address string) error {
	if err := check(address); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[address] != nil {
		return fmt.Errorf("the sandbox already listens at %s", address)
	}
	if len(s.listeners) >= maxListeners {
		return fmt.Errorf("the sandbox already has %d listeners", maxListeners)
	}
	listen := s.Listen
	if listen == nil {
		listen = listenTCP
	}
	ln, err := listen(address)
	if err != nil {
		return err
	}
	if s.listeners == nil {
		s.listeners = map[string]*source{}
	}
	l := &source{ln: ln, accepted: make(chan net.Conn), closed: make(chan struct{})}
	s.listeners[address] = l
	go l.accept()
	return nil
}

func (s *Server) close(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.listeners[address]; l != nil {
		l.close()
		delete(s.listeners, address)
	}
}

func listenTCP(address string) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", address)
}

// source is a listener in the sandbox.
type source struct {
	ln       net.Listener
	accepted chan net.Conn
	closed   chan struct{}
}

// accept hands connections to the requests for them, one at a time.
func (l *source) accept() {
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			select {
			case <-l.closed:
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		select {
		case l.accepted <- conn:
		case <-l.closed:
			reset(conn)
			return
		}
	}
}

func (l *source) close() {
	close(l.closed)
	_ = l.ln.Close() // it only listened
}

// carried is a connection. It is forgotten when both of its streams have ended.
type carried struct {
	conn  net.Conn
	fed   atomic.Bool // the stream of what is sent on it has begun
	ended atomic.Int32
}

func (s *Server) add(id uint64, conn net.Conn) (*carried, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[id] != nil {
		reset(conn)
		return nil, fmt.Errorf("connection %d is there already", id)
	}
	if s.conns == nil {
		s.conns = map[uint64]*carried{}
	}
	c := &carried{conn: conn}
	s.conns[id] = c
	return c, nil
}

func (s *Server) end(id uint64, c *carried) {
	if c.ended.Add(1) < 2 {
		return
	}
	s.mu.Lock()
	delete(s.conns, id)
	s.mu.Unlock()
	_ = c.conn.Close() // both directions have ended
}

// reset ends a connection in a way that the other side does not take for a
// regular end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// carryOut waits for a connection and answers with what arrives on it. The
// parent always asks for the other direction then, however soon it closes the
// connection.
func (s *Server) carryOut(id uint64, w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	l := s.listeners[r.PathValue("address")]
	s.mu.Unlock()
	if l == nil {
		return errors.New("no such listener")
	}
	var conn net.Conn
	select {
	case conn = <-l.accepted:
	case <-l.closed:
		return errors.New("the listener is closed")
	case <-r.Context().Done(): // the connection to the parent has ended
		return nil
	}
	c, err := s.add(id, conn)
	if err != nil {
		return err
	}
	defer s.end(id, c)
	stop := context.AfterFunc(r.Context(), func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	out := flushing{w, http.NewResponseController(w)}
	_ = out.Flush() // the parent waits for the answer's head
	if _, err := io.CopyBuffer(out, readOnly{conn}, make([]byte, copySize)); err != nil {
		panic(http.ErrAbortHandler) // resets the stream
	}
	return nil
}

// carryIn sends the body of a request on a connection. If the other side no
// longer reads, what it sent is still carried.
func (s *Server) carryIn(id uint64, _ http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c == nil || c.fed.Swap(true) {
		return errors.New("no such connection, or it is sent to already")
	}
	defer s.end(id, c)
	stop := context.AfterFunc(r.Context(), func() { reset(c.conn) }) // also while it is not read
	defer stop()
	in := &body{r: r.Body}
	_, err := io.CopyBuffer(writeOnly{c.conn}, in, make([]byte, copySize))
	switch {
	case in.err != nil:
		reset(c.conn)
		return nil // there is nobody to be told
	case err != nil:
		return errors.New("the connection is no longer read")
	}
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // an error means that it has ended
	}
	return nil
}

// body remembers an error of a request's body.
type body struct {
	r   io.Reader
	err error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// flushing sends at once what is written to it.
type flushing struct {
	io.Writer
	*http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.Flush()
	}
	return n, err
}

// readOnly and writeOnly keep a copy to plain reads and writes.
type (
	readOnly  struct{ io.Reader }
	writeOnly struct{ io.Writer }
)
