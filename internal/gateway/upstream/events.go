package upstream

import "bytes"

// Events reads a stream of server-sent events, which is written to it in pieces of any
// size. It keeps the event that has not ended, whose size the writer bounds.
type Events struct {
	// Each gets every event that has data, and keeps nothing of it. Its error ends the
	// stream.
	Each func(name, data []byte) error

	line []byte // the beginning of a line that has not ended
	name []byte // of the event
	data []byte // of the event
}

// keepLine is how large a buffer is kept from event to event.
const keepLine = 64 << 10

// Write reads a piece.
func (e *Events) Write(p []byte) (int, error) {
	n := len(p)
	for i := bytes.IndexByte(p, '\n'); i >= 0; i = bytes.IndexByte(p, '\n') {
		line := p[:i]
		if len(e.line) > 0 {
			line = append(e.line, line...)
			e.line = line[:0]
		}
		p = p[i+1:]
		if err := e.take(bytes.TrimSuffix(line, []byte("\r"))); err != nil {
			return 0, err
		}
	}
	e.line = append(e.line, p...)
	if len(e.line) == 0 && cap(e.line) > keepLine {
		e.line = nil
	}
	return n, nil
}

// Kept returns the size of the event that has not ended, and of the memory for it.
func (e *Events) Kept() (size, memory int) {
	return len(e.line) + len(e.data), cap(e.line) + cap(e.data)
}

// take reads a line.
func (e *Events) take(line []byte) error {
	if len(line) == 0 {
		return e.end()
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		e.name = append(e.name[:0], value[:min(len(value), 100)]...)
	case "data":
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	}
	return nil
}

// end hands on an event.
func (e *Events) end() error {
	name, data := e.name, e.data
	e.name, e.data = e.name[:0], e.data[:0]
	if cap(e.data) > keepLine {
		e.data = nil
	}
	if len(data) == 0 {
		return nil
	}
	return e.Each(name, data)
}
