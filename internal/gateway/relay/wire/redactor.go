package wire

import (
	"bytes"
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

// redactor removes secrets from the texts that a stream of server-sent events
// brings in pieces: what an event begins, the next one may continue. It makes events ready
// whole and in their order, and unchanged unless a secret is in their texts. An event
// whose text ends as a secret begins waits, with those behind it, for the next piece of
// the same text. It does not look at the bytes of an event itself, which are redacted
// before.
type redactor struct {
	secrets *redact.Registry
	ready   []byte // events to pass on
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

// event makes an event ready, or has it wait. Its texts are parts of its data, which is nil
// if it has none.
func (r *redactor) event(raw, data []byte, texts []found) error {
	if data != nil && len(texts) == 0 && !isPing(data) {
		if err := r.flush(); err != nil {
			return err
		}
	}
	e, err := r.read(raw, texts)
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
func (r *redactor) read(raw []byte, texts []found) (e *waiting, err error) {
	for i, f := range texts {
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
			e = waiter(raw, texts)
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
func waiter(raw []byte, texts []found) *waiting {
	e := &waiting{raw: bytes.Clone(raw)}
	for _, f := range texts {
		e.texts = append(e.texts, phrase{f.start, f.end, bytes.Clone(f.text), bytes.Clone(f.text), false})
	}
	return e
}

// part returns the state of a text.
func (r *redactor) part(key []byte) (*part, error) {
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
func (r *redactor) flush() error {
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
func (r *redactor) release() {
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
	_, data := partsOf(e.raw)
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
