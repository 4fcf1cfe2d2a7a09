package initproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"securebench/internal/attended"
	"securebench/internal/bounded"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/wire"
)

// ErrLost is wrapped by errors of a client whose init has ended or does not
// answer. Processes of init's own user can bring that about; see the package
// documentation.
var ErrLost = errors.New("contact with the sandbox is lost")

// How long init may be silent. It shares the sandbox's processor with the
// commands, so that is long.
const (
	killGrace   = 10 * time.Second // for the end of a command that was killed
	pingAfter   = 20 * time.Second // of silence
	lostAfter   = 60 * time.Second // of silence, or of not reading
	watchPeriod = 5 * time.Second
)

// Client runs commands through the init of a sandbox. It is safe for
// concurrent use. Init can have been taken over, so what it sends is bounded
// and checked.
type Client struct {
	conn      *wire.Conn
	slots     chan struct{} // one per command
	suspended atomic.Bool

	connections    chan struct{} // one per connection of a listener, or request for one
	lastConnection atomic.Uint64 // its number

	life context.Context // ends when the connection is of no use any more, for an ErrLost
	end  context.CancelCauseFunc

	grace  time.Duration               // killGrace, except in tests
	box    func(context.Context) error // ends and closes the box of Open
	closed sync.Once
}

// newClient makes a client of a connection to an init.
func newClient(conn net.Conn) (*Client, error) {
	watched := &watchedConn{Conn: conn}
	cc, err := wire.Dial(watched)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := &Client{conn: cc, slots: make(chan struct{}, maxCommands), connections: make(chan struct{}, maxConnections), grace: killGrace}
	c.life, c.end = context.WithCancelCause(context.Background())
	go c.watch(watched)
	return c, nil
}

// Close kills every process of the sandbox and ends init. It is idempotent.
// After [Open] it closes the box as well.
func (c *Client) Close(ctx context.Context) (err error) {
	c.closed.Do(func() {
		c.fail(errors.New("the client is closed"))
		if c.box != nil {
			err = c.box(ctx)
		}
	})
	return err
}

// fail ends the connection; every call returns then.
func (c *Client) fail(cause error) {
	c.end(fmt.Errorf("%w: %w", ErrLost, cause))
	// It is a connection in memory or to a box that ends.
	_ = c.conn.Close()
}

// KillAll kills every process of the sandbox but init. Commands that run
// report that a signal killed them.
func (c *Client) KillAll(ctx context.Context) error {
	if err := c.do(ctx, http.MethodDelete, "/processes", nil); err != nil {
		return fmt.Errorf("killing all processes: %w", err)
	}
	return nil
}

// Processes counts the processes of the sandbox but init.
func (c *Client) Processes(ctx context.Context) (int, error) {
	b, err := c.ask(ctx, http.MethodGet, "/processes", nil, wire.MaxReply)
	if err != nil {
		return 0, fmt.Errorf("counting the processes: %w", err)
	}
	n, err := wire.Decode[census](b)
	if err != nil {
		return 0, c.hostile(err)
	}
	return n.Count, nil
}

// KillUser kills every process of a user but init.
func (c *Client) KillUser(ctx context.Context, uid int) error {
	if err := c.do(ctx, http.MethodDelete, "/users/"+strconv.Itoa(uid), nil); err != nil {
		return fmt.Errorf("killing the processes of user %d: %w", uid, err)
	}
	return nil
}

// do makes a request that is answered without a body.
func (c *Client) do(ctx context.Context, method, path string, body io.Reader) error {
	_, err := c.ask(ctx, method, path, body, wire.MaxReply)
	return err
}

// ask makes a request and returns the body of the answer, of at most limit bytes.
func (c *Client) ask(ctx context.Context, method, path string, body io.Reader, limit int) ([]byte, error) {
	b, err := c.conn.Ask(ctx, method, path, body, limit)
	return b, c.failed(ctx, err)
}

// send makes a request and returns the answer, whose body the caller closes.
func (c *Client) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	res, err := c.conn.Send(ctx, method, path, body)
	return res, c.failed(ctx, err)
}

// failed says why a request failed: because init refused it or does not keep to the
// protocol, because the caller gave up, or because the connection is lost.
func (c *Client) failed(ctx context.Context, err error) error {
	var refused *wire.Refusal
	switch {
	case err == nil || errors.As(err, &refused):
		return err
	case errors.Is(err, wire.ErrInvalid):
		return c.hostile(err)
	case c.life.Err() != nil:
		return context.Cause(c.life)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// hostile ends the connection to an init that does not keep to the protocol.
func (c *Client) hostile(err error) error {
	c.fail(err)
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// stderrLimit is how much of init's own words is kept for an error.
const stderrLimit = 4096

// Open runs a box whose command is an init, and returns a client of it that
// owns the box. The box needs a standard input and limits on its time and
// output that suit all that will cross it.
func Open(ctx context.Context, box sandbox.Box) (*Client, error) {
	ours, theirs := net.Pipe()
	bctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	connected, ended := make(chan *Client, 1), make(chan struct{})
	var lost error
	go func() {
		defer close(ended)
		said := &bounded.Head{Max: stderrLimit}
		out, err := box.Run(bctx, sandbox.Streams{Stdin: theirs, Stdout: untilClosed{theirs}, Stderr: said})
		if err == nil {
			err = fmt.Errorf("it ended with %s, code %d, and said %q", out.End, out.ExitCode, said)
		}
		lost = err
		select {
		case c := <-connected:
			c.fail(err)
		default:
		}
		_ = theirs.Close()
	}()
	c, err := newClient(ours)
	if err != nil {
		cancel(err)
		<-ended
		return nil, errors.Join(err, lost, box.Close(ctx))
	}
	connected <- c
	c.box = func(ctx context.Context) error {
		if c.suspended.Load() { // it cannot end by itself
			cancel(fmt.Errorf("%w: it is suspended", ErrLost))
		}
		t := attended.AfterFunc(killGrace, func() { cancel(fmt.Errorf("%w: it does not end: %w", ErrLost, sandbox.ErrOverdue)) })
		defer t.Stop()
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		defer stop()
		<-ended // with its input, or because it is killed
		return box.Close(ctx)
	}
	return c, nil
}

// untilClosed passes on what is written until the other end is closed, and
// discards the rest, so that a box ends on its own.
type untilClosed struct{ w io.Writer }

func (u untilClosed) Write(p []byte) (int, error) {
	_, _ = u.w.Write(p)
	return len(p), nil
}
