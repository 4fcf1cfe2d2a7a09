package loopback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// MaxConnections is how many connections of a sandbox are carried at a time.
const MaxConnections = 256

const (
	waiting = 8                // requests for a connection that are kept pending
	linger  = 30 * time.Second // for what was written before a Close
)

// Parent is the end in the parent, over all listeners of a sandbox.
type Parent struct {
	life      context.Context // ends with the sandbox
	send      Send
	suspended func() bool
	slots     chan struct{} // one per connection, or request for one
	last      atomic.Uint64 // number of a connection
}

// Send makes a request and returns its answer, which is a good one.
type Send func(ctx context.Context, method, path string, body io.Reader) (*http.Response, error)

// NewParent makes the parent's end. The context ends with the sandbox, and
// suspended reports whether that is not expected to answer.
func NewParent(life context.Context, send Send, suspended func() bool) *Parent {
	return &Parent{life: life, send: send, suspended: suspended, slots: make(chan struct{}, MaxConnections)}
}

// listener is a [net.Listener] in the parent.
type listener struct {
	parent   *Parent
	address  string
	path     string
	ctx      context.Context // ends with it
	end      context.CancelCauseFunc
	accepted chan net.Conn
	once     sync.Once
}

// Listen makes the sandbox listen at an address of its loopback.
func (p *Parent) Listen(ctx context.Context, address string) (net.Listener, error) {
	l := &listener{parent: p, address: address, path: "/listeners/" + url.PathEscape(address), accepted: make(chan net.Conn)}
	err := check(address)
	if err == nil {
		err = p.ask(ctx, http.MethodPost, l.path)
	}
	if err != nil {
		return nil, fmt.Errorf("listening at %s in the sandbox: %w", address, err)
	}
	l.ctx, l.end = context.WithCancelCause(p.life)
	for range waiting {
		go l.wait()
	}
	return l, nil
}

// ask makes a request that is answered without a body.
func (p *Parent) ask(ctx context.Context, method, path string) error {
	res, err := p.send(ctx, method, path, nil)
	if err != nil {
		return err
	}
	_ = res.Body.Close() // nothing is read from it
	return nil
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr {
	here, _ := addresses(l.address)
	return here
}

// Close implements [net.Listener]. It does not wait for the sandbox.
func (l *listener) Close() error {
	l.end(net.ErrClosed)
	l.once.Do(func() {
		go func() { _ = l.parent.ask(l.parent.life, http.MethodDelete, l.path) }() // fails when the sandbox has ended
	})
	return nil
}

// wait asks for connections and passes them on, one at a time.
func (l *listener) wait() {
	for {
		select {
		case l.parent.slots <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		c, err := l.next()
		if err != nil {
			<-l.parent.slots
			l.end(fmt.Errorf("waiting for a connection in the sandbox: %w", err))
			return
		}
		select {
		case l.accepted <- c:
		case <-l.ctx.Done():
			_ = c.Close() // in memory
			return
		}
	}
}

// next waits for one connection and begins to carry it. A request for one is
// never given up: it would be unknown whether there is one.
func (l *listener) next() (net.Conn, error) {
	p := l.parent
	path := "/connections/" + strconv.FormatUint(p.last.Add(1), 10)
	inCtx, stopIn := context.WithCancel(p.life)
	res, err := p.send(inCtx, http.MethodGet, l.path+path, nil)
	if err != nil {
		stopIn()
		return nil, err
	}
	outCtx, stopOut := context.WithCancel(p.life)
	far, near := Pipe(l.address)
	near.closed = func() {
		stopIn()
		go p.linger(outCtx, stopOut)
	}
	var streams sync.WaitGroup
	streams.Go(func() {
		defer stopIn()
		p.receive(inCtx, far, res.Body)
	})
	streams.Go(func() {
		defer stopOut()
		_ = p.put(outCtx, path, far)
	})
	go func() {
		streams.Wait()
		<-p.slots
	}()
	return near, nil
}

// linger gives the sandbox time to take what was sent on a connection that is
// closed. Time in which it is suspended does not count.
func (p *Parent) linger(ctx context.Context, stop func()) {
	for {
		t := time.NewTimer(linger)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if !p.suspended() {
			stop()
			return
		}
	}
}

// receive passes on what arrives, until its end or that of the connection here.
func (p *Parent) receive(ctx context.Context, far *Conn, from io.ReadCloser) {
	defer from.Close()
	src := &body{r: from}
	_, _ = io.CopyBuffer(writeOnly{far}, src, make([]byte, copySize))
	switch {
	case p.life.Err() != nil:
		far.fail(context.Cause(p.life))
	case ctx.Err() != nil: // it is closed, but what was written is still sent
	case src.err != nil:
		far.fail(syscall.ECONNRESET)
	default:
		_ = far.CloseWrite() // in memory
	}
}

// put sends what is written to the connection, until its end or until the other
// side reads no more.
func (p *Parent) put(ctx context.Context, path string, far *Conn) error {
	defer far.in.Close()
	res, err := p.send(ctx, http.MethodPut, path, sent{far})
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// sent reads what was written at the other end. Closing it fails further writes.
type sent struct{ c *Conn }

func (s sent) Read(p []byte) (int, error) {
	n, err := s.c.in.Read(p)
	if errors.Is(err, io.EOF) && s.c.state.why() != nil {
		err = s.c.state.why() // no regular end: the stream is reset
	}
	return n, err
}

func (s sent) Close() error { return s.c.in.Close() }
