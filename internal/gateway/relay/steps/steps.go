// Package steps reads the steps of an agent from its requests and from its provider's
// answers, which have passed the relay. It keeps the readers of these untrusted bytes
// apart from the relay, which has the key. They decide nothing: what they do not
// understand is no step.
package steps

import (
	"iter"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/relay/wire"
	"securebench/internal/gateway/upstream"
	"securebench/internal/trajectory"
)

// Dialect is how a provider's API states the steps of a conversation.
type Dialect struct {
	// asked returns the parts of a request.
	asked func(body jsontext.Value) iter.Seq[trajectory.Part]
	// event reads an event of an answer that comes as a stream.
	event func(a *Answer, name string, data jsontext.Value)
	// whole reads an answer that is one JSON text.
	whole func(a *Answer, body jsontext.Value)
}

// Asked returns the parts of a request, in its order. The body is valid JSON, so that
// nothing is decoded of a part but by its Steps.
func (d *Dialect) Asked(body []byte) iter.Seq[trajectory.Part] { return d.asked(body) }

// adder is told steps, until it returns false.
type adder = func(trajectory.Step) bool

// parts hands on the elements of a list, whose steps one function reads in this dialect and
// place alone.
func parts(place string, list jsontext.Value, yield func(trajectory.Part) bool, steps func(v jsontext.Value, add adder) bool) (more bool) {
	more = true
	wire.Elements(list, func(v jsontext.Value) bool {
		more = yield(trajectory.Part{Place: place, Raw: v, Steps: func(add adder) bool { return steps(v, add) }})
		return more
	})
	return more
}

// maxPiece bounds the events that are read, as they are passed on.
const maxPiece = 8 << 20

// Answer is one answer, as far as it has come. It is not safe for concurrent use.
type Answer struct {
	dialect *Dialect
	pool    *wire.Pool
	held    int64
	size    int64
	full    bool
	events  upstream.Events
	parts   []*part
	open    map[string]*part // by key
	shape   shape            // of the last event
	pieces  []said           // the first by the event that is read, unless they are long
	proving bool             // an event is read of which nothing is kept
	others  bool             // it has other steps
}

// part is a step of an answer, whose text may come in pieces.
type part struct {
	step trajectory.Step
	text []byte
}

// Answer returns the reader of an answer, which keeps its texts in memory of a pool. It
// must be closed.
func (d *Dialect) Answer(pool *wire.Pool) *Answer {
	a := &Answer{dialect: d, pool: pool, open: map[string]*part{}}
	a.events.Each = func(name, data []byte) error {
		a.read(name, data)
		return nil
	}
	return a
}

// Events reads some events of a stream, whole.
func (a *Answer) Events(p []byte) {
	if len(p) <= maxPiece && !a.full {
		_, _ = a.events.Write(p) // no event is an error
	}
}

// Whole reads an answer that is one JSON text.
func (a *Answer) Whole(body []byte) { a.dialect.whole(a, body) }

// Steps returns what the answer says.
func (a *Answer) Steps() (out []trajectory.Step) {
	for _, p := range a.parts {
		if p.step.Text += string(p.text); p.step.Kind == trajectory.Call || strings.TrimSpace(p.step.Text) != "" {
			out = append(out, p.step)
		}
		p.text = nil
	}
	return out
}

// Close gives the memory back.
func (a *Answer) Close() {
	a.events, a.parts, a.open, a.full = upstream.Events{}, nil, nil, true
	a.shape, a.pieces = shape{}, nil
	a.pool.Resize(&a.held, 0)
}

// overhead is what a part takes besides its texts.
const overhead = 500

// keep reports whether there is room for more.
func (a *Answer) keep(n int) bool {
	a.size += int64(n)
	a.full = a.full || !a.pool.Resize(&a.held, a.size)
	return !a.full
}

// add adds a whole step.
func (a *Answer) add(s trajectory.Step) bool {
	if a.proving {
		a.others = true
		return false
	}
	if !a.keep(len(s.Text) + overhead) {
		return false
	}
	a.parts = append(a.parts, &part{step: s})
	return true
}

// begin adds a step whose text comes in pieces under a key.
func (a *Answer) begin(key string, s trajectory.Step) *part {
	if !a.add(s) {
		return nil
	}
	p := a.parts[len(a.parts)-1]
	a.open[key] = p
	return p
}

// piece adds to the step with a key, which it begins with that kind unless it is there.
func (a *Answer) piece(key string, kind trajectory.Kind, text upstream.Text) {
	if text == "" {
		return
	}
	if len(a.pieces) < 2 && len(text) <= maxShape {
		a.pieces = append(a.pieces, said{key, kind, text})
	}
	if a.proving {
		return
	}
	p := a.open[key]
	if p == nil {
		p = a.begin(key, trajectory.Step{Kind: kind})
	}
	if p != nil && a.keep(len(text)) {
		p.text = append(p.text, text...)
	}
}

// isJSON asks no more of a part of an event than that it is JSON.
func isJSON(v jsontext.Value) bool {
	return v.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// read decodes a value; one of another form is zero.
func read[T any](v jsontext.Value) (out T) {
	if upstream.Decode(v, &out) != nil {
		return *new(T)
	}
	return out
}

// piece is a piece of content in any of the APIs.
type piece struct {
	Type    upstream.Text `json:"type"`
	Text    upstream.Text `json:"text"`
	Refusal upstream.Text `json:"refusal"`
}

// String is its text, or in brackets what it is.
func (p piece) String() string {
	switch {
	case p.Text != "":
		return string(p.Text)
	case p.Refusal != "":
		return string(p.Refusal)
	case p.Type == "" || strings.HasSuffix(string(p.Type), "text"):
		return ""
	}
	return "[" + string(p.Type) + "]"
}

// texts are what content says: a text, or a list of pieces.
func texts(v jsontext.Value) (out []string) {
	if v.Kind() == '"' {
		return []string{string(read[upstream.Text](v))}
	}
	wire.Elements(v, func(e jsontext.Value) bool {
		if e.Kind() == '"' {
			out = append(out, string(read[upstream.Text](e)))
		} else {
			out = append(out, read[piece](e).String())
		}
		return true
	})
	return out
}

// result is what a tool returned: a text, pieces of content, or other JSON.
func result(v jsontext.Value) string {
	text := strings.Join(texts(v), "\n")
	if k := v.Kind(); strings.TrimSpace(text) == "" && (k == '[' || k == '{') {
		return compact(v)
	}
	return text
}

// compact is JSON without blanks.
func compact(v jsontext.Value) string {
	if len(v) == 0 || v.Kind() == 'n' {
		return ""
	}
	v = v.Clone()
	_ = v.Compact() // or as it is
	return string(v)
}

// says adds a message's texts, and reports whether more are wanted.
func says(add func(trajectory.Step) bool, role upstream.Text, v jsontext.Value) bool {
	for _, text := range texts(v) {
		if strings.TrimSpace(text) != "" && !add(trajectory.Step{Kind: trajectory.Message, Role: string(role), Text: text}) {
			return false
		}
	}
	return true
}
