package initproc

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
	"syscall"
	"time"

	"securebench/internal/sandbox"
)

// maxConnections is how many connections of a sandbox are carried at a time.
const maxConnections = 256

const (
	waiting = 8                // requests for a connection that are kept pending
	linger  = 30 * time.Second // for what was written before a Close
)

// listener is a [net.Listener] in the parent.
type listener struct {
	client   *Client
	address  string
	path     string
	ctx      context.Context // ends with it
	end      context.CancelCauseFunc
	accepted chan net.Conn
	once     sync.Once
}

// Listen makes init listen at an address of the sandbox's loopback, such as
// 127.0.0.1:61080, and returns a listener for the connections that are made to
// it there. At most 256 are open at a time, over all listeners of
// the client; the sandbox's kernel keeps a few more waiting. The connections can
// be closed in one direction: they have the method CloseWrite. Closing the
// listener closes none of them; the end of the client ends all.
func (c *Client) Listen(ctx context.Context, address string) (net.Listener, error) {
	l := &listener{client: c, address: address, path: "/listeners/" + url.PathEscape(address), accepted: make(chan net.Conn)}
	err := checkAddress(address)
	if err == nil {
		err = c.tell(ctx, http.MethodPost, l.path, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("listening at %s in the sandbox: %w", address, err)
	}
	l.ctx, l.end = context.WithCancelCause(c.life)
	for range waiting {
		go l.wait()
	}
	return l, nil
}

// tell makes a request of whose answer only the status counts.
func (c *Client) tell(ctx context.Context, method, path string, body io.Reader) error {
	res, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	return res.Body.Close()
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
		go func() { _ = l.client.tell(l.client.life, http.MethodDelete, l.path, nil) }() // fails when the sandbox has ended
	})
	return nil
}

// wait asks for connections and passes them on, one at a time.
func (l *listener) wait() {
	for {
		select {
		case l.client.connections <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		c, err := l.next()
		if err != nil {
			<-l.client.connections
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
	c := l.client
	path := "/connections/" + strconv.FormatUint(c.lastConnection.Add(1), 10)
	inCtx, stopIn := context.WithCancel(c.life)
	res, err := c.send(inCtx, http.MethodGet, l.path+path, nil)
	if err != nil {
		stopIn()
		return nil, err
	}
	outCtx, stopOut := context.WithCancel(c.life)
	far, near := Pipe(l.address)
	near.closed = func() {
		stopIn()
		go c.linger(outCtx, stopOut)
	}
	var streams sync.WaitGroup
	streams.Go(func() {
		defer stopIn()
		c.receive(inCtx, far, res.Body)
	})
	streams.Go(func() {
		defer stopOut()
		_ = c.put(outCtx, path, far)
	})
	go func() {
		streams.Wait()
		<-c.connections
	}()
	return near, nil
}

// linger gives the sandbox time to take what was sent on a connection that is
// closed. Time in which it is suspended does not count.
func (c *Client) linger(ctx context.Context, stop func()) {
	for {
		t := time.NewTimer(linger)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if !c.suspended.Load() {
			stop()
			return
		}
	}
}

// receive passes on what arrives, until its end or that of the connection here.
func (c *Client) receive(ctx context.Context, far *Conn, from io.ReadCloser) {
	defer from.Close()
	src := &sandbox.Input{Reader: from}
	_, _ = io.CopyBuffer(writeOnly{far}, src, make([]byte, copySize))
	switch {
	case c.life.Err() != nil:
		far.fail(context.Cause(c.life))
	case ctx.Err() != nil: // it is closed, but what was written is still sent
	case src.Err != nil:
		far.fail(syscall.ECONNRESET)
	default:
		_ = far.CloseWrite() // in memory
	}
}

// put sends what is written to the connection, until its end or until the other
// side reads no more.
func (c *Client) put(ctx context.Context, path string, far *Conn) error {
	defer far.in.Close()
	return c.tell(ctx, http.MethodPut, path, sent{far})
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
