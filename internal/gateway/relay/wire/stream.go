package wire

import (
	"sync/atomic"

	"securebench/internal/gateway/upstream"
)

// The bounds of a stream: of one event, and of all.
const (
	maxEvent  = 16 << 20
	maxStream = 64 << 20
)

// Pool is memory for what is kept of responses, shared by those of an attempt.
type Pool struct{ free atomic.Int64 }

// NewPool returns a pool of n bytes.
func NewPool(n int64) *Pool {
	p := &Pool{}
	p.free.Store(n)
	return p
}

// Resize changes how much of the pool is held, to n bytes, and reports whether
// there is enough.
func (p *Pool) Resize(held *int64, n int64) bool {
	more := n - *held
	if p.free.Add(-more) < 0 && more > 0 {
		p.free.Add(more)
		return false
	}
	*held = n
	return true
}

// keepLine is how large a buffer for events is kept from event to event.
const keepLine = 64 << 10

// Stream counts a response of server-sent events, which are written to it in
// pieces of any size. It is not safe for concurrent use.
type Stream struct {
	m      meter
	pool   *Pool
	held   int64
	total  int64
	events upstream.Events
	err    error
}

// Close gives its memory back. The usage can still be had.
func (s *Stream) Close() {
	s.events = upstream.Events{}
	s.pool.Resize(&s.held, 0)
}

// Write reads a piece. After [ErrTooLong] nothing more is read.
func (s *Stream) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.total += int64(len(p)); s.total > maxStream {
		s.err = ErrTooLong
		return 0, s.err
	}
	_, _ = s.events.Write(p) // no event is an error
	if size, memory := s.events.Kept(); size > maxEvent || !s.pool.Resize(&s.held, int64(memory)) {
		s.err = ErrTooLong
		s.Close()
		return 0, s.err
	}
	return len(p), nil
}

// Done reports whether the response has ended as its API says.
func (s *Stream) Done() bool { return s.m.done }

// Usage returns what the response used so far. It is not exact if the provider
// did not say, or the stream did not come to its end; then it is a guess from
// the lengths.
func (s *Stream) Usage(requestBytes int64) (u Usage, exact bool) {
	return s.m.usage(Guess(requestBytes))
}
