package steps

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/relay/wire"
	"securebench/internal/gateway/upstream"
	"securebench/internal/trajectory"
)

// shape is that of an event which did no more than to go on with one text. An event that
// differs from it in this string alone brings the next piece of the text. Most of a
// stream's events are so, and need not be decoded.
type shape struct {
	name, before, after []byte // the event's, and what is around the string; before is empty if there is no shape
	key                 string
	kind                trajectory.Kind
	sure                bool // that the string is the text
}

// said is a piece of a text.
type said struct {
	key  string
	kind trajectory.Kind
	text upstream.Text
}

// maxShape bounds the events whose shape is kept, and so their texts.
const maxShape = 4 << 10

// read reads an event.
func (a *Answer) read(name, data []byte) {
	text, ok := a.alike(name, data)
	if a.pieces = a.pieces[:0]; ok {
		a.piece(a.shape.key, a.shape.kind, text)
		return
	}
	a.shape.before = a.shape.before[:0]
	if !isJSON(data) {
		return
	}
	parts := len(a.parts)
	a.dialect.event(a, string(name), data)
	if len(a.pieces) == 1 && len(a.parts) == parts && len(data) <= maxShape {
		a.shape.keep(name, data, a.pieces[0])
	}
}

// keep keeps the shape of an event, if its text can be found in it.
func (s *shape) keep(name, data []byte, is said) {
	quoted := []byte(`"` + is.text + `"`)
	if i := bytes.LastIndex(data, quoted); i >= 0 {
		s.name, s.before, s.after = append(s.name[:0], name...), append(s.before[:0], data[:i]...), append(s.after[:0], data[i+len(quoted):]...)
		s.key, s.kind, s.sure = is.key, is.kind, false
	}
}

// alike returns the text of an event of the shape that the last one had.
func (a *Answer) alike(name, data []byte) (upstream.Text, bool) {
	s := &a.shape
	from, to := len(s.before), len(data)-len(s.after)
	if from == 0 || from >= to || !bytes.HasPrefix(data, s.before) || !bytes.HasSuffix(data, s.after) || !bytes.Equal(name, s.name) {
		return "", false
	}
	text, ok := quoted(data[from:to])
	return text, ok && text != "" && (s.sure || a.proves(name))
}

// quoted returns the text of a string, and reports whether it is one.
func quoted(v jsontext.Value) (text upstream.Text, ok bool) {
	if in := v[1:]; len(in) > 0 && v[0] == '"' && in[len(in)-1] == '"' && wire.Plain(in[:len(in)-1]) {
		return upstream.Text(in[:len(in)-1]), true
	}
	if v[0] != '"' || !isJSON(v) {
		return "", false
	}
	_ = text.UnmarshalJSON(v) // which is a string
	return text, true
}

// proves reports whether an event of the shape says what its string is, whatever it is: one
// with another string is read, and nothing is done of what it says.
func (a *Answer) proves(name []byte) bool {
	const other = "no provider says this"
	s := &a.shape
	a.proving, a.pieces, a.others = true, a.pieces[:0], false
	a.dialect.event(a, string(name), bytes.Join([][]byte{s.before, s.after}, []byte(`"`+other+`"`)))
	a.proving = false
	s.sure = !a.others && len(a.pieces) == 1 && a.pieces[0] == said{s.key, s.kind, other}
	return s.sure
}
