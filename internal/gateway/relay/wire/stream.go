package wire

import (
	"bytes"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

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

// NewStream returns the counter of a stream, which keeps at most an event at a
// time. It must be closed.
func NewStream(pool *Pool) *Stream {
	s := &Stream{m: meter{input: -1, output: -1}, pool: pool}
	s.events.Each = s.event
	return s
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

// event reads an event. Most are pieces of output, which are only measured.
func (s *Stream) event(name, data []byte) error {
	if bytes.HasSuffix(name, []byte(".delta")) || string(name) == "content_block_delta" {
		s.piece(name, data)
		return nil
	}
	var e struct {
		Type     string         `json:"type"`
		Item     item           `json:"item"`
		Block    item           `json:"content_block"`
		Usage    jsontext.Value `json:"usage"`
		Delta    jsontext.Value `json:"delta"`
		Response struct {
			Usage   jsontext.Value `json:"usage"`
			Details struct {
				Reason string `json:"reason"`
			} `json:"incomplete_details"`
		} `json:"response"`
		Message struct {
			Usage jsontext.Value `json:"usage"`
		} `json:"message"`
	}
	if upstream.Decode(data, &e) != nil {
		return nil
	}
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed":
		s.m.merge(e.Response.Usage)
		s.m.done, s.m.end.stop = true, e.Response.Details.Reason
		s.m.end.failed = e.Type == "response.failed"
	case "response.output_item.done":
		s.count(e.Item)
	case "message_start":
		s.m.merge(e.Message.Usage)
	case "content_block_start":
		s.count(e.Block)
	case "message_delta":
		s.m.merge(e.Usage)
		s.stopped(e.Delta)
	case "message_stop":
		s.m.done = true
	case "error":
		s.m.end.failed = true
	default:
		if len(name) == 0 && (strings.HasSuffix(e.Type, ".delta") || e.Type == "content_block_delta") {
			s.piece([]byte(e.Type), data)
		}
	}
	return nil
}

// piece counts a piece of output.
func (s *Stream) piece(name, data []byte) {
	// What surrounds the text of a piece is about 100 bytes.
	s.m.guess += max(Guess(int64(len(data)-100)), 1)
	switch string(name) {
	case "response.output_text.delta":
		s.m.end.said = true
	case "response.refusal.delta":
		s.m.end.declined = true
	case "content_block_delta":
		s.m.end.said = s.m.end.said || bytes.Contains(data, []byte("text_delta"))
	}
}

// stopped notes why a message ended.
func (s *Stream) stopped(delta jsontext.Value) {
	var d struct {
		Reason string `json:"stop_reason"`
	}
	if upstream.Decode(delta, &d) == nil && d.Reason != "" {
		s.m.end.stop = d.Reason
	}
}

func (s *Stream) count(i item) {
	s.m.end.item(i)
	if i.call() {
		s.m.calls++
	}
}
