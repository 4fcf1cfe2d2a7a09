package initproc

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

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/wire"
)

const (
	maxListeners = 8
	acceptPause  = 100 * time.Millisecond // after an error: the sandbox may be short of something
)

// Loopback is the end in the sandbox of connections that its processes make to
// addresses of its loopback.
type Loopback struct {
	// Listen listens at an address; nil is the system's own way. Its connections
	// have the method CloseWrite.
	Listen func(address string) (net.Listener, error)

	mu        sync.Mutex
	listeners map[string]*source
	conns     map[uint64]*carried
}

// Handle adds the requests that are about them.
func (s *Loopback) Handle(mux *http.ServeMux) {
	mux.HandleFunc("POST /listeners/{address}", func(w http.ResponseWriter, r *http.Request) {
		wire.Answer(w, s.open(r.PathValue("address")))
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
			wire.Answer(w, err)
		})
	}
	on("GET /listeners/{address}/connections/{id}", s.carryOut)
	on("PUT /connections/{id}", s.carryIn)
}

// Close ends all listeners and connections.
func (s *Loopback) Close() {
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

func checkAddress(address string) error {
	if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().IsLoopback() || a.Port() == 0 {
		return fmt.Errorf("%q is not an address of the loopback", address)
	}
	return nil
}

func (s *Loopback) open(address string) error {
	if err := checkAddress(address); err != nil {
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

func (s *Loopback) close(address string) {
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

func (s *Loopback) add(id uint64, conn net.Conn) (*carried, error) {
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

func (s *Loopback) end(id uint64, c *carried) {
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
func (s *Loopback) carryOut(id uint64, w http.ResponseWriter, r *http.Request) error {
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
func (s *Loopback) carryIn(id uint64, _ http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c == nil || c.fed.Swap(true) {
		return errors.New("no such connection, or it is sent to already")
	}
	defer s.end(id, c)
	stop := context.AfterFunc(r.Context(), func() { reset(c.conn) }) // also while it is not read
	defer stop()
	in := &sandbox.Input{Reader: r.Body}
	_, err := io.CopyBuffer(writeOnly{c.conn}, in, make([]byte, copySize))
	switch {
	case in.Err != nil:
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
