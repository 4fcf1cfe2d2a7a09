package reply

import (
	"bytes"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of a stream: of one event, and of all.
const (
	MaxEvent  = 16 << 20
	MaxStream = 64 << 20
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

// keepLine is how large a buffer for lines is kept from event to event.
const keepLine = 64 << 10

// Stream counts a response of server-sent events, which are written to it in
// pieces of any size. It is not safe for concurrent use.
type Stream struct {
	m     meter
	pool  *Pool
	held  int64
	total int64
	line  []byte // the beginning of a line that has not ended
	name  []byte // of the event
	data  []byte // of the event
	err   error
}

// NewStream returns the counter of a stream, which keeps at most an event at a
// time. It must be closed.
func NewStream(pool *Pool) *Stream { return &Stream{m: meter{input: -1, output: -1}, pool: pool} }

// Close gives its memory back. The usage can still be had.
func (s *Stream) Close() {
	s.line, s.data = nil, nil
	s.pool.Resize(&s.held, 0)
}

// Write reads a piece. After [ErrTooLong] nothing more is read.
func (s *Stream) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n := len(p)
	if s.total += int64(n); s.total > MaxStream {
		s.err = ErrTooLong
		return 0, s.err
	}
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		line := p[:i]
		if len(s.line) > 0 {
			line = append(s.line, line...)
			s.line = line[:0]
		}
		p = p[i+1:]
		s.take(bytes.TrimSuffix(line, []byte("\r")))
	}
	s.line = append(s.line, p...)
	if len(s.line) == 0 && cap(s.line) > keepLine {
		s.line = nil
	}
	if len(s.line)+len(s.data) > MaxEvent || !s.pool.Resize(&s.held, int64(cap(s.line)+cap(s.data))) {
		s.err = ErrTooLong
		s.Close()
		return 0, s.err
	}
	return n, nil
}

// Done reports whether the response has ended as its API says.
func (s *Stream) Done() bool { return s.m.done }

// Usage returns what the response used so far. It is not exact if the provider
// did not say, or the stream did not come to its end; then it is a guess from
// the lengths.
func (s *Stream) Usage(requestBytes int64) (u Usage, exact bool) {
	return s.m.usage(Guess(requestBytes))
}

// take reads a line.
func (s *Stream) take(line []byte) {
	if len(line) == 0 {
		s.event()
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		s.name = append(s.name[:0], value[:min(len(value), 100)]...)
	case "data":
		if len(s.data) > 0 {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, value...)
	}
}

// event reads an event. Most are pieces of output, which are only measured.
func (s *Stream) event() {
	name, data := s.name, s.data
	s.name, s.data = s.name[:0], s.data[:0]
	if cap(s.data) > keepLine {
		s.data = nil
	}
	if len(data) == 0 {
		return
	}
	if bytes.HasSuffix(name, []byte(".delta")) || string(name) == "content_block_delta" {
		s.piece(name, data)
		return
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
	if decode(data, &e) != nil {
		return
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
	if decode(delta, &d) == nil && d.Reason != "" {
		s.m.end.stop = d.Reason
	}
}

func (s *Stream) count(i item) {
	s.m.end.item(i)
	if i.call() {
		s.m.calls++
	}
}
