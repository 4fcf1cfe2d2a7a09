package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
)

// Dialect reads the requests and answers of an API.
type Dialect struct {
	// request checks a body, and returns what is to be sent.
	request func(c *checker, body []byte) ([]byte, error)
	// event reads an event of a stream, once value has had what the walk found.
	event func(m *meter, name, data []byte)
	// value reads a value at one of the places.
	value func(m *meter, path string, v jsontext.Value)
	// whole reads an answer that is one JSON text, and reports whether it is an answer.
	whole  func(m *meter, body []byte) bool
	places *place // the texts that events bring in pieces, and the values that count
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

// NewStream returns the reader of a stream, which passes events on to a function, which
// keeps nothing of them. It must be closed, or released. The answer to a request with
// hidden events loses these.
func (d *Dialect) NewStream(secrets *redact.Registry, pool *Pool, hidden bool, out func(events []byte) error) *Stream {
	s := &Stream{dialect: d, pool: pool, out: out, hidden: hidden, m: newMeter(), redactor: redactor{secrets: secrets}}
	if d.value != nil {
		s.walker.each = func(path string, v jsontext.Value) { d.value(&s.m, path, v) }
	}
	return s
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
