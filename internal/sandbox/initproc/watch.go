package initproc

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Suspend says that the sandbox is about to be frozen: until Resume it is not
// expected to answer. Calls that need an answer wait, but one whose context ends
// then fails within a short time, and init is lost.
func (c *Client) Suspend() { c.suspended.Store(true) }

// Resume says that the sandbox runs again.
func (c *Client) Resume() { c.suspended.Store(false) }

// watchedConn counts what moves on a connection.
type watchedConn struct {
	net.Conn
	received, sent atomic.Int64
	sending        atomic.Int32
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.received.Add(int64(n))
	return n, err
}

func (w *watchedConn) Write(p []byte) (int, error) {
	w.sending.Add(1)
	defer w.sending.Add(-1)
	n, err := w.Conn.Write(p)
	w.sent.Add(int64(n))
	return n, err
}

// watch asks an init that is silent for an answer, and gives one up that stays
// silent or does not read, until the client ends. The library's own keep-alive
// could not be suspended. Periods are counted, so that none in which the sandbox
// was suspended counts.
func (c *Client) watch(conn *watchedConn) {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	var received, sent int64
	var silent, stuck time.Duration
	for {
		select {
		case <-c.life.Done():
			return
		case <-tick.C:
		}
		silent, stuck = silent+watchPeriod, stuck+watchPeriod
		suspended := c.suspended.Load()
		if n := conn.received.Load(); suspended || n != received {
			received, silent = n, 0
		}
		if n := conn.sent.Load(); suspended || n != sent || conn.sending.Load() == 0 {
			sent, stuck = n, 0
		}
		switch {
		case max(silent, stuck) >= lostAfter:
			c.fail(fmt.Errorf("it has not answered for %v", lostAfter))
		case silent == pingAfter:
			go func() { _ = c.do(c.life, http.MethodGet, "/alive", nil) }() // its answer ends the silence
		}
	}
}
