package wire

import "securebench/internal/redact"

// Dialect reads the requests and answers of an API.
type Dialect struct {
	// request checks a body, and returns what is to be sent.
	request func(c *checker, body []byte) ([]byte, error)
	event   func(m *meter, name, data []byte) // of a stream
	// whole reads an answer that is one JSON text, and reports whether it is an answer.
	whole func(m *meter, body []byte) bool
	texts *place // that events bring in pieces
	// hides says which events of a stream come because the request was changed; nil is none.
	hides func(data []byte) bool
}

// Request checks a request.
func (d *Dialect) Request(body []byte, asked Asked, p Policy) (Request, error) {
	c := &checker{policy: p, asked: asked}
	body, err := d.request(c, body)
	if err != nil {
		return Request{}, err
	}
	return c.finish(body)
}

// NewStream returns the counter of a stream, which keeps at most an event at a
// time. It must be closed.
func (d *Dialect) NewStream(pool *Pool) *Stream {
	s := &Stream{m: newMeter(), pool: pool}
	s.events.Each = func(name, data []byte) error {
		d.event(&s.m, name, data)
		return nil
	}
	return s
}

// NewRedactor returns a redactor that passes events on to a function, which keeps
// nothing of them. It must be closed, or released. The answer to a request with hidden
// events loses these.
func (d *Dialect) NewRedactor(secrets *redact.Registry, pool *Pool, hidden bool, out func(events []byte) error) *Redactor {
	r := &Redactor{secrets: secrets, pool: pool, out: out, places: d.texts}
	if hidden {
		r.drop = d.hides
	}
	return r
}

// Whole returns the usage of a response that is one JSON text.
func (d *Dialect) Whole(body []byte, requestBytes int64) (u Usage, exact bool) {
	m := newMeter()
	m.guess = Guess(int64(len(body)))
	d.whole(&m, body)
	return m.usage(Guess(requestBytes))
}

// WholeEnding says how an answer that is one JSON text ended, unless it is none.
func (d *Dialect) WholeEnding(body []byte) (Ending, bool) {
	m := newMeter()
	if !d.whole(&m, body) {
		return Ending{}, false
	}
	return m.end.read(), true
}
