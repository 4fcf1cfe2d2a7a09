package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
)

// maxParts is how many texts of a stream may be unfinished at a time. An honest
// provider sends one after the other.
const maxParts = 64

// Redactor removes secrets from the texts that a stream of server-sent events
// brings in pieces: what an event begins, the next one may continue. It passes
// events on whole, and unchanged unless their text ends as a secret begins: what
// may be one waits for the next event of the same text. It does not look at the
// bytes of an event itself, which are redacted before. It is not safe for
// concurrent use.
type Redactor struct {
	secrets *redact.Registry
	out     func(events []byte) error
	pool    *Pool
	held    int64
	raw     []byte // the event that has not ended
	line    int    // where its last line begins
	ready   []byte // events to pass on
	walker  walker
	parts   []*part
}

// part is a text that comes in pieces.
type part struct {
	key   string
	clean *redact.Writer
	text  bytes.Buffer // what is clean and not passed on
	last  piece        // the latest piece that was not passed on as it came
}

// piece is an event that brings a piece of a text.
type piece struct {
	head       []byte // its lines without data
	data       []byte
	start, end int // of the text in data, with its quotes
}

func newRedactor(secrets *redact.Registry, pool *Pool, out func(events []byte) error) *Redactor {
	return &Redactor{secrets: secrets, pool: pool, out: out, walker: walker{dec: jsontext.NewDecoder(bytes.NewReader(nil))}}
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
	if len(r.raw) > 2*maxEvent || !r.pool.Resize(&r.held, int64(cap(r.raw)+cap(r.ready))) {
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
	r.raw, r.ready, r.parts = nil, nil, nil
	r.pool.Resize(&r.held, 0)
}

// event makes an event ready.
func (r *Redactor) event(raw []byte) error {
	data := dataOf(raw)
	if data == nil {
		r.ready = append(r.ready, raw...)
		return nil
	}
	if w := &r.walker; !w.walk(data) {
		if string(w.kind) != "ping" {
			if err := r.flush(); err != nil {
				return err
			}
		}
		r.ready = append(r.ready, raw...)
		return nil
	}
	p, err := r.part()
	if err != nil {
		return err
	}
	if _, err := p.clean.Write(r.walker.text); err != nil {
		return err
	}
	if bytes.Equal(p.text.Bytes(), r.walker.text) {
		r.ready = append(r.ready, raw...)
	} else {
		p.last = piece{headOf(raw), bytes.Clone(data), r.walker.start, r.walker.end}
		if p.text.Len() > 0 {
			r.ready = p.last.with(r.ready, p.text.String())
		}
	}
	p.text.Reset()
	return nil
}

// part returns the state of the text that the walker found.
func (r *Redactor) part() (*part, error) {
	for _, p := range r.parts {
		if p.key == string(r.walker.key) {
			return p, nil
		}
	}
	if len(r.parts) == maxParts {
		if err := r.flush(); err != nil {
			return nil, err
		}
	}
	p := &part{key: string(r.walker.key)}
	p.clean = r.secrets.Writer(&p.text)
	r.parts = append(r.parts, p)
	return p, nil
}

// flush ends all texts, and makes ready what waits.
func (r *Redactor) flush() error {
	for _, p := range r.parts {
		if err := p.clean.Close(); err != nil {
			return err
		}
		if p.text.Len() > 0 {
			r.ready = p.last.with(r.ready, p.text.String())
		}
	}
	r.parts = nil
	return nil
}

// with appends the event with another text.
func (e *piece) with(to []byte, text string) []byte {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil { // half a character
		quoted, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\ufffd"))
	}
	data := bytes.Join([][]byte{e.data[:e.start], quoted, e.data[e.end:]}, nil)
	return fmt.Appendf(to, "%sdata: %s\n\n", e.head, bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: ")))
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

// walker finds the text in the data of an event. Its memory is used again.
type walker struct {
	dec        *jsontext.Decoder
	from       bytes.Reader
	kind       []byte // the event's type
	key        []byte // says which text it is of
	field      string // that has the text
	text       []byte
	start, end int
	slow       bool // leaves all to the decoder, for tests
}

// walk reads data, and reports whether it brings a piece of a text.
func (w *walker) walk(data []byte) bool {
	w.forget()
	if w.slow || !w.scan(data) {
		w.forget()
		if !w.decode(data) {
			return false
		}
	}
	w.key = append(append(w.key, w.kind...), w.field...)
	switch {
	case w.field == "delta":
		return bytes.HasSuffix(w.kind, []byte(".delta"))
	case w.field != "":
		return string(w.kind) == "content_block_delta"
	}
	return false
}

func (w *walker) forget() {
	w.kind, w.key, w.text, w.field = w.kind[:0], w.key[:0], w.text[:0], ""
}

// decode reads an event, and reports whether it is an object.
func (w *walker) decode(data []byte) bool {
	w.from.Reset(data)
	w.dec.Reset(&w.from)
	return w.object(w.member)
}

// object reads an object, and reports whether it is one.
func (w *walker) object(member func(name string) bool) bool {
	if t, err := w.dec.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for w.dec.PeekKind() == '"' {
		name, err := w.dec.ReadToken()
		if err != nil || !member(known(name)) {
			return false
		}
	}
	t, err := w.dec.ReadToken()
	return err == nil && t.Kind() == '}'
}

// known returns a name that matters, "" for others.
func known(name jsontext.Token) string {
	switch s := name.String(); s {
	case "type", "delta", "index", "output_index", "content_index", "summary_index", "item_id", "text", "partial_json", "thinking", "signature":
		return s
	}
	return ""
}

// member reads a member of the event.
func (w *walker) member(name string) bool {
	if name == "delta" && w.dec.PeekKind() == '{' {
		return w.object(w.inDelta)
	}
	value, err := w.dec.ReadValue()
	if err != nil {
		return false
	}
	switch name {
	case "type":
		w.kind, _ = jsontext.AppendUnquote(w.kind[:0], value)
	case "delta":
		w.found(name, value, int(w.dec.InputOffset()))
	case "index", "output_index", "content_index", "summary_index", "item_id":
		w.indexed(name, value)
	}
	return true
}

// indexed notes a member that says which text it is.
func (w *walker) indexed(name string, value []byte) {
	w.key = append(append(append(w.key, name...), value[:min(len(value), 100)]...), ' ')
}

// inDelta reads a member of the object that has a text in the Messages API.
func (w *walker) inDelta(name string) bool {
	value, err := w.dec.ReadValue()
	if err != nil {
		return false
	}
	switch name {
	case "text", "partial_json", "thinking", "signature":
		w.found(name, value, int(w.dec.InputOffset()))
	}
	return true
}

// found notes a text that was just read, up to an offset.
func (w *walker) found(field string, value []byte, end int) {
	if value[0] == '"' {
		w.start, w.end, w.field = end-len(value), end, field
		w.text = unquote(w.text[:0], value)
	}
}
