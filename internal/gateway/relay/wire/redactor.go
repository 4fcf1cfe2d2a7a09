package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
)

// The bounds of what waits: how many texts of a stream may be unfinished at a time, how
// many events wait for one to go on, and how long these are. An honest provider sends one
// text after the other.
const (
	maxParts   = 64
	maxWaiting = 64
	maxWaits   = 1 << 20
)

// Redactor removes secrets from the texts that a stream of server-sent events
// brings in pieces: what an event begins, the next one may continue. It passes events on
// whole and in their order, and unchanged unless a secret is in their texts. An event
// whose text ends as a secret begins waits, with those behind it, for the next piece of
// the same text. It does not look at the bytes of an event itself, which are redacted
// before. It is not safe for concurrent use.
type Redactor struct {
	secrets *redact.Registry
	out     func(events []byte) error
	pool    *Pool
	places  *place
	drop    func(data []byte) bool // says which events the agent does not get; nil is none
	held    int64
	raw     []byte // the event that has not ended
	line    int    // where its last line begins
	ready   []byte // events to pass on
	walker  walker
	parts   []*part
	waiting []*waiting
	waits   int // bytes of these
}

// waiting is an event that waits, or stands behind one that does.
type waiting struct {
	raw   []byte
	texts []phrase
	open  int // texts whose end is not known yet
}

// phrase is a text of an event, and what the agent gets of it.
type phrase struct {
	start, end int // in the data, with its quotes
	text, out  []byte
	changed    bool
}

// part is a text that comes in pieces.
type part struct {
	key   string
	clean *redact.Writer
	out   bytes.Buffer // what is clean, of the pieces
	piece []piece      // those that have not come out whole
}

// piece is one of a text.
type piece struct {
	in   *waiting
	text int // which of its texts
	left int // bytes that have not come out
}

// Write reads a piece of the stream, of any size. What is ready then is passed on
// at once.
func (r *Redactor) Write(p []byte) (int, error) {
	n := len(p)
	for usual := true; len(p) > 0; {
		end, read := 0, r.event
		if usual && len(r.raw) == 0 {
			end = eventEnd(p)
			usual = end > 0 // or each event would look through all the others
		}
		if end == 0 {
			end, read = bytes.IndexByte(p, '\n')+1, r.add
		}
		if end == 0 {
			end = len(p)
		}
		if err := read(p[:end]); err != nil {
			return 0, err
		}
		p = p[end:]
	}
	if err := r.pass(); err != nil {
		return 0, err
	}
	if len(r.raw) == 0 && cap(r.raw) > keepLine {
		r.raw = nil
	}
	if len(r.raw) > 2*maxEvent || !r.pool.Resize(&r.held, int64(cap(r.raw)+cap(r.ready)+3*r.waits)) {
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
func (r *Redactor) add(p []byte) error {
	r.raw = append(r.raw, p...)
	if p[len(p)-1] != '\n' {
		return nil
	}
	blank := len(bytes.TrimRight(r.raw[r.line:], "\r\n")) == 0
	if r.line = len(r.raw); !blank {
		return nil
	}
	err := r.event(r.raw)
	r.raw, r.line = r.raw[:0], 0
	return err
}

// pass passes on what is ready.
func (r *Redactor) pass() error {
	if len(r.ready) == 0 {
		return nil
	}
	err := r.out(r.ready)
	if r.ready = r.ready[:0]; cap(r.ready) > keepLine {
		r.ready = nil
	}
	return err
}

// Close passes on what is left, and gives the memory back.
func (r *Redactor) Close() error {
	err := r.flush()
	r.ready = append(r.ready, r.raw...)
	err = errors.Join(err, r.pass())
	r.Release()
	return err
}

// Release gives the memory back.
func (r *Redactor) Release() {
	r.raw, r.ready, r.parts, r.waiting, r.waits = nil, nil, nil, nil, 0
	r.pool.Resize(&r.held, 0)
}

// event makes an event ready, or has it wait.
func (r *Redactor) event(raw []byte) error {
	data := dataOf(raw)
	if data != nil && r.drop != nil && r.drop(data) {
		return nil
	}
	if w := &r.walker; data == nil || !w.walk(data, r.places) {
		w.texts = w.texts[:0]
	}
	if data != nil && len(r.walker.texts) == 0 && !isPing(data) {
		if err := r.flush(); err != nil {
			return err
		}
	}
	e, err := r.read(raw)
	if err != nil {
		return err
	}
	if e == nil && len(r.waiting) == 0 {
		r.ready = append(r.ready, raw...)
		return nil
	}
	if e == nil {
		e = &waiting{raw: bytes.Clone(raw)}
	}
	r.waiting, r.waits = append(r.waiting, e), r.waits+len(e.raw)
	if len(r.waiting) > maxWaiting || r.waits > maxWaits {
		return r.flush()
	}
	r.release()
	return nil
}

// isPing reports whether the data, which has no text, only keeps the connection: it may
// come in the middle of a text.
func isPing(data []byte) bool {
	return len(data) < 40 && bytes.Contains(data, []byte(`"ping"`))
}

// read reads the texts of an event. It returns nil if they came out as they are.
func (r *Redactor) read(raw []byte) (e *waiting, err error) {
	for i, f := range r.walker.texts {
		p, err := r.part(f.key)
		if err != nil {
			return nil, err
		}
		if _, err := p.clean.Write(f.text); err != nil {
			return nil, err
		}
		if e == nil && len(p.piece) == 0 && bytes.Equal(p.out.Bytes(), f.text) {
			p.out.Reset()
			continue
		}
		if e == nil {
			e = r.waiter(raw)
		}
		t := &e.texts[i]
		t.out = t.out[:0]
		p.piece = append(p.piece, piece{e, i, len(t.text)})
		e.open++
		p.settle()
	}
	return e, nil
}

// waiter returns an event that may wait, whose texts are unchanged.
func (r *Redactor) waiter(raw []byte) *waiting {
	e := &waiting{raw: bytes.Clone(raw)}
	for _, f := range r.walker.texts {
		e.texts = append(e.texts, phrase{f.start, f.end, bytes.Clone(f.text), bytes.Clone(f.text), false})
	}
	return e
}

// part returns the state of a text.
func (r *Redactor) part(key []byte) (*part, error) {
	for _, p := range r.parts {
		if p.key == string(key) {
			return p, nil
		}
	}
	if len(r.parts) == maxParts {
		if err := r.flush(); err != nil {
			return nil, err
		}
	}
	p := &part{key: string(key)}
	p.clean = r.secrets.Writer(&p.out)
	r.parts = append(r.parts, p)
	return p, nil
}

// settle gives what has come out to the pieces that it is of. If a secret was in it, the
// first of them gets it all.
func (p *part) settle() {
	gone := -p.clean.Held() // bytes of the pieces that have come out, or were a secret
	for _, in := range p.piece {
		gone += in.left
	}
	out := p.out.Bytes()
	defer p.out.Reset()
	changed := !p.plain(out, gone)
	for first := true; len(p.piece) > 0; first = false {
		in := &p.piece[0]
		t := &in.in.texts[in.text]
		n := min(in.left, gone)
		switch {
		case !changed:
			t.out, out = append(t.out, out[:n]...), out[n:]
		case first:
			t.out = append(t.out, out...)
		}
		t.changed = t.changed || changed
		if in.left, gone = in.left-n, gone-n; in.left > 0 {
			return
		}
		in.in.open--
		p.piece = p.piece[1:]
	}
}

// plain reports whether what has come out is what so many bytes of the pieces were.
func (p *part) plain(out []byte, gone int) bool {
	if len(out) != gone {
		return false
	}
	for _, in := range p.piece {
		text := in.in.texts[in.text].text
		n := min(in.left, len(out))
		if !bytes.Equal(out[:n], text[len(text)-in.left:][:n]) {
			return false
		}
		out = out[n:]
	}
	return len(out) == 0
}

// flush ends all texts, and makes ready what waits.
func (r *Redactor) flush() error {
	for _, p := range r.parts {
		if err := p.clean.Close(); err != nil {
			return err
		}
		if len(p.piece) > 0 {
			p.settle()
		}
	}
	r.parts = nil
	r.release()
	return nil
}

// release makes ready the events that no longer wait.
func (r *Redactor) release() {
	n := 0
	for ; n < len(r.waiting) && r.waiting[n].open == 0; n++ {
		e := r.waiting[n]
		r.ready, r.waits = e.append(r.ready), r.waits-len(e.raw)
	}
	if r.waiting = r.waiting[n:]; len(r.waiting) == 0 {
		r.waiting = nil
	}
}

// append appends the event as the agent gets it.
func (e *waiting) append(to []byte) []byte {
	if !slices.ContainsFunc(e.texts, func(t phrase) bool { return t.changed }) {
		return append(to, e.raw...)
	}
	data := dataOf(e.raw)
	var out []byte
	at := 0
	for _, t := range e.texts {
		if !t.changed {
			continue
		}
		quoted, err := jsontext.AppendQuote(nil, t.out)
		if err != nil { // half a character
			quoted, _ = jsontext.AppendQuote(nil, bytes.ToValidUTF8(t.out, []byte("\ufffd")))
		}
		out, at = append(append(out, data[at:t.start]...), quoted...), t.end
	}
	out = append(out, data[at:]...)
	return fmt.Appendf(to, "%sdata: %s\n\n", headOf(e.raw), bytes.ReplaceAll(out, []byte("\n"), []byte("\ndata: ")))
}

// dataOf returns an event's data, nil if it has none. It may be a part of the
// event.
func dataOf(raw []byte) (data []byte) {
	if data = onlyData(raw); data != nil {
		return data
	}
	for line := range bytes.Lines(raw) {
		field, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
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
	return data
}

// onlyData returns the data of an event that has at most a name before it, nil of
// others.
func onlyData(raw []byte) []byte {
	if bytes.HasPrefix(raw, []byte("event:")) {
		_, raw, _ = bytes.Cut(raw, []byte("\n"))
	}
	line, ok := bytes.CutPrefix(raw, []byte("data: "))
	i := bytes.IndexByte(line, '\n')
	if !ok || i < 0 || string(line[i:]) != "\n\n" || bytes.IndexByte(line, '\r') >= 0 {
		return nil
	}
	return line[:i:i]
}

// headOf returns an event's lines without data.
func headOf(raw []byte) (head []byte) {
	for line := range bytes.Lines(raw) {
		line = bytes.TrimRight(line, "\r\n")
		if field, _, _ := bytes.Cut(line, []byte(":")); len(line) > 0 && string(field) != "data" {
			head = append(append(head, line...), '\n')
		}
	}
	return head
}
