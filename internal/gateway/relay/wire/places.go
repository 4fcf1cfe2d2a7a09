package wire

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// place is a member that a reader looks for, and those below it. Arrays are passed
// through: what is in one is where the array is.
type place struct {
	name, path string
	text       bool // a string that continues those of earlier events
	label      bool // tells texts apart that are in the same place of the object that it is in
	value      bool // of whatever kind
	below      []*place
}

// places returns a tree of paths such as "choices.delta.content".
func places(texts, labels, values string) *place {
	root := &place{}
	for i, paths := range []string{texts, labels, values} {
		for path := range strings.FieldsSeq(paths) {
			p := root
			for name := range strings.SplitSeq(path, ".") {
				p = p.child(name)
			}
			p.text, p.label, p.value = p.text || i == 0, p.label || i == 1, p.value || i == 2
		}
	}
	return root
}

// child returns a place below, which it adds if it is not there.
func (p *place) child(name string) *place {
	if i := slices.IndexFunc(p.below, func(c *place) bool { return c.name == name }); i >= 0 {
		return p.below[i]
	}
	c := &place{name: name, path: strings.TrimPrefix(p.path+"."+name, ".")}
	p.below = append(p.below, c)
	return c
}

// at returns the place of a member, nil if it is not looked for.
func (p *place) at(quoted []byte) *place {
	name := unquotedName(quoted)
	for _, c := range p.below {
		if c.name == string(name) {
			return c
		}
	}
	return nil
}

// unquotedName returns a name, which is seldom written with escapes.
func unquotedName(quoted []byte) []byte {
	if name := quoted[1 : len(quoted)-1]; bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	return unquote(nil, quoted)
}

// walker finds what is at some places of a JSON text. It reads what a provider sends, and
// checks no more of it than it needs: a text that is no JSON means nothing to an agent.
// Its memory is used again.
type walker struct {
	scanner
	each   func(path string, value jsontext.Value) // gets the values; nil drops them
	texts  []found
	labels []byte
	depth  int
}

// found is a text.
type found struct {
	key        []byte // says which text it continues
	text       []byte
	start, end int // with its quotes
}

// maxDepth bounds how deep arrays lie in each other.
const maxDepth = 32

// walk reads a JSON text, and reports whether it is an object.
func (w *walker) walk(data []byte, root *place) bool {
	w.scanner = scanner{cursor{Text: data}}
	w.texts, w.labels, w.depth = w.texts[:0], w.labels[:0], 0
	if !w.object(root) {
		return false
	}
	w.blank()
	return w.At == len(data)
}

// object reads an object.
func (w *walker) object(p *place) bool {
	if !w.Skip('{') {
		return false
	}
	texts, labels := len(w.texts), len(w.labels)
	for first := true; !w.Skip('}'); first = false {
		if !first && !w.Skip(',') {
			return false
		}
		name := w.value()
		if name.Kind() != '"' || len(name) < 2 || !w.Skip(':') || !w.member(p.at(name)) {
			return false
		}
	}
	for i := texts; i < len(w.texts); i++ {
		w.texts[i].key = append(w.texts[i].key, w.labels[labels:]...)
	}
	w.labels = w.labels[:labels]
	return true
}

// member reads what is at a place, nil for any other.
func (w *walker) member(p *place) bool {
	w.blank()
	start := w.At
	if !w.at(p) {
		return false
	}
	if p != nil && p.value && w.each != nil {
		w.each(p.path, w.Text[start:w.At:w.At])
	}
	return true
}

// at reads a member, or an element of one.
func (w *walker) at(p *place) bool {
	w.blank()
	switch c := w.Next(); {
	case p == nil:
	case c == '{' && len(p.below) > 0:
		return w.object(p)
	case c == '[' && (len(p.below) > 0 || p.text):
		return w.array(p)
	}
	start := w.At
	v := w.value()
	switch {
	case v == nil:
		return false
	case p == nil:
	case p.text && v.Kind() == '"' && len(v) > 1:
		w.found(p, v, start)
	case p.label:
		w.labels = append(append(append(w.labels, p.name...), v[:min(len(v), 100)]...), ' ')
	}
	return true
}

// array reads an array of what may be at a place.
func (w *walker) array(p *place) bool {
	if w.depth++; w.depth > maxDepth || !w.Skip('[') {
		return false
	}
	for first := true; !w.Skip(']'); first = false {
		if !first && !w.Skip(',') || !w.at(p) {
			return false
		}
	}
	w.depth--
	return true
}

// found notes a text.
func (w *walker) found(p *place, v []byte, start int) {
	if len(w.texts) < cap(w.texts) {
		w.texts = w.texts[:len(w.texts)+1] // whose memory is used again
	} else {
		w.texts = append(w.texts, found{})
	}
	f := &w.texts[len(w.texts)-1]
	f.key, f.text = append(append(f.key[:0], p.path...), ' '), unquote(f.text[:0], v)
	f.start, f.end = start, start+len(v)
}

// unquote appends the text of a string. One that is not valid is left as it is: half of a
// character may be in the next event.
func unquote(to, quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 || !utf8.Valid(quoted) {
		return append(to, quoted[1:len(quoted)-1]...)
	}
	to, _ = jsontext.AppendUnquote(to, quoted)
	return to
}
