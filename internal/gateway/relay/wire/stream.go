package wire

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"
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

// Stream reads an answer of server-sent events, which is written to it in pieces of any
// size. It counts what the answer costs, and passes its events on without secrets, whole
// and in their order. It is not safe for concurrent use.
type Stream struct {
	dialect  *Dialect
	pool     *Pool
	out      func(events []byte) error
	hidden   bool // the agent gets only events that it has asked for
	m        meter
	walker   walker
	redactor redactor
	held     int64
	total    int64
	raw      []byte // the event that has not ended
	line     int    // where its last line begins
}

// Write reads a piece. What is ready then is passed on at once. After an error nothing
// more is written.
func (s *Stream) Write(p []byte) (int, error) {
	n := len(p)
	if s.total += int64(n); s.total > maxStream {
		return 0, ErrTooLong
	}
	s.redactor.ready = slices.Grow(s.redactor.ready, n)
	for usual := true; len(p) > 0; {
		end, read := 0, s.event
		if usual && len(s.raw) == 0 {
			end = eventEnd(p)
			usual = end > 0 // or each event would look through all the others
		}
		if end == 0 {
			end, read = bytes.IndexByte(p, '\n')+1, s.add
		}
		if end == 0 {
			end = len(p)
		}
		if err := read(p[:end]); err != nil {
			return 0, err
		}
		p = p[end:]
	}
	if err := s.pass(); err != nil {
		return 0, err
	}
	if len(s.raw) == 0 && cap(s.raw) > keepLine {
		s.raw = nil
	}
	r := &s.redactor
	if len(s.raw) > maxEvent || !s.pool.Resize(&s.held, int64(cap(s.raw)+cap(r.ready)+3*r.waits)) {
		return 0, ErrTooLong
	}
	return n, nil
}

// eventEnd returns where the event ends with which p begins, 0 if that is not
// there or takes a closer look.
func eventEnd(p []byte) int {
	i := bytes.Index(p, []byte("\n\n"))
	if i <= 0 || p[0] == '\n' || bytes.IndexByte(p[:i], '\r') >= 0 {
		return 0
	}
	return i + 2
}

// add reads a line or a part of one.
func (s *Stream) add(p []byte) error {
	s.raw = append(s.raw, p...)
	if p[len(p)-1] != '\n' {
		return nil
	}
	blank := len(bytes.TrimRight(s.raw[s.line:], "\r\n")) == 0
	if s.line = len(s.raw); !blank {
		return nil
	}
	err := s.event(s.raw)
	s.raw, s.line = s.raw[:0], 0
	return err
}

// event reads an event: one walk finds what is counted of it, and the texts that may have
// a part of a secret.
func (s *Stream) event(raw []byte) error {
	name, data := partsOf(raw)
	if len(data) == 0 {
		return s.redactor.event(raw, data, nil)
	}
	s.m.bare = false
	if !s.walker.walk(data, s.dialect.places) {
		s.walker.texts, s.m.bare = s.walker.texts[:0], false
	}
	s.dialect.event(&s.m, name, data)
	if s.hidden && s.m.bare {
		return nil
	}
	return s.redactor.event(raw, data, s.walker.texts)
}

// pass passes on what is ready.
func (s *Stream) pass() error {
	r := &s.redactor
	if len(r.ready) == 0 {
		return nil
	}
	err := s.out(r.ready)
	if r.ready = r.ready[:0]; cap(r.ready) > keepLine {
		r.ready = nil
	}
	return err
}

// Close passes on what is left, and gives the memory back.
func (s *Stream) Close() error {
	err := s.redactor.flush()
	s.redactor.ready = append(s.redactor.ready, s.raw...)
	err = errors.Join(err, s.pass())
	s.Release()
	return err
}

// Release gives the memory back. The usage can still be had.
func (s *Stream) Release() {
	s.raw, s.redactor = nil, redactor{secrets: s.redactor.secrets}
	s.pool.Resize(&s.held, 0)
}

// Done reports whether the response has ended as its API says.
func (s *Stream) Done() bool { return s.m.done }

// Usage returns what the response used so far. It is not exact if the provider
// did not say, or the stream did not come to its end; then it is a guess from
// the lengths.
func (s *Stream) Usage(requestBytes int64) (u Usage, exact bool) {
	return s.m.usage(Guess(requestBytes))
}

// maxName bounds what is looked at of an event's name.
const maxName = 100

// partsOf returns an event's name and its data, nil if it has none. They may be parts of
// the event.
func partsOf(raw []byte) (name, data []byte) {
	if name, data = usualParts(raw); data != nil {
		return name, data
	}
	name = nil
	for line := range bytes.Lines(raw) {
		field, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case string(field) == "event":
			name = value[:min(len(value), maxName)]
		case string(field) != "data":
		case data == nil:
			data = value[:len(value):len(value)]
			if data == nil {
				data = []byte{}
			}
		default:
			data = append(append(data, '\n'), value...)
		}
	}
	return name, data
}

// usualParts returns the parts of an event that has at most a name before its data, which
// is one line; of others no data.
func usualParts(raw []byte) (name, data []byte) {
	rest, named := bytes.CutPrefix(raw, []byte("event: "))
	if named {
		name, rest, _ = bytes.Cut(rest, []byte("\n"))
	}
	line, ok := bytes.CutPrefix(rest, []byte("data: "))
	i := bytes.IndexByte(line, '\n')
	if !ok || i < 0 || string(line[i:]) != "\n\n" || len(name) > maxName || bytes.IndexByte(raw, '\r') >= 0 {
		return nil, nil
	}
	return name, line[:i:i]
}
