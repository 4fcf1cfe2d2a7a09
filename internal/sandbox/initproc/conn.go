package initproc

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Conn is an end of a connection in memory. Each direction can be closed on its
// own and has deadlines, and a Write returns when the other end has read.
type Conn struct {
	in, out       net.Conn
	local, remote net.Addr
	state         *state
	once          sync.Once
	closed        func() // called when Close is; nil is nothing
}

// state is what both ends of a connection know.
type state struct {
	mu     sync.Mutex
	broken error
}

var _ net.Conn = (*Conn)(nil)

// Pipe makes a connection to an address, and returns the end of who connects and
// that of who listens there.
func Pipe(address string) (dialer, listener *Conn) {
	here, elsewhere := addresses(address)
	toListener, fromDialer := net.Pipe()
	toDialer, fromListener := net.Pipe()
	s := &state{}
	return &Conn{in: toDialer, out: fromDialer, local: elsewhere, remote: here, state: s},
		&Conn{in: toListener, out: fromListener, local: here, remote: elsewhere, state: s}
}

// addresses returns the address of a listener and one of the same host.
func addresses(address string) (listener, other net.Addr) {
	a, _ := netip.ParseAddrPort(address) // the zero value if it is none
	return net.TCPAddrFromAddrPort(a), net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.Addr(), 0))
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		if why := c.state.why(); why != nil {
			err = why
		}
	case errors.Is(err, io.ErrClosedPipe):
		err = net.ErrClosed
	}
	return n, err
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		if err = c.state.why(); err == nil {
			err = syscall.EPIPE
		}
	}
	return n, err
}

// CloseWrite ends what is sent. The other direction stays open.
func (c *Conn) CloseWrite() error { return c.out.Close() }

// Close ends both directions. What was written is delivered.
func (c *Conn) Close() error {
	err := errors.Join(c.out.Close(), c.in.Close())
	c.once.Do(func() {
		if c.closed != nil {
			c.closed()
		}
	})
	return err
}

// fail breaks the connection: both ends get the error.
func (c *Conn) fail(why error) {
	c.state.mu.Lock()
	if c.state.broken == nil {
		c.state.broken = why
	}
	c.state.mu.Unlock()
	_ = errors.Join(c.out.Close(), c.in.Close()) // pipes in memory
}

func (s *state) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// LocalAddr implements [net.Conn].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements [net.Conn]. The port is not known.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error { return c.in.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
