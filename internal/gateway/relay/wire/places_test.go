package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// sample has places of all kinds.
func sample() *place {
	return places("delta delta.text choices.delta.content", "type choices.index choices.delta.kind", "usage choices choices.stop delta")
}

// decoded finds what a walker finds, with a decoder.
func decoded(data []byte, root *place) (out []string, ok bool) {
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := d.ReadValue()
	v = slices.Clone(v)
	if _, rest := d.ReadToken(); err != nil || !errors.Is(rest, io.EOF) || v.Kind() != '{' {
		return nil, false
	}
	var texts, values []string
	var read func(p *place, v jsontext.Value, labels *string)
	read = func(p *place, v jsontext.Value, labels *string) {
		in := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		switch {
		case v.Kind() == '{' && len(p.below) > 0:
			own, first := "", len(texts)
			_, _ = in.ReadToken()
			for in.PeekKind() != '}' {
				name, _ := in.ReadToken()
				quoted, _ := jsontext.AppendQuote(nil, name.String())
				value, _ := in.ReadValue()
				value = slices.Clone(value)
				if c := p.at(quoted); c != nil {
					read(c, value, &own)
					if c.value {
						values = append(values, c.path+"="+string(value))
					}
				}
			}
			for i := range texts[first:] {
				texts[first+i] += own
			}
		case v.Kind() == '[' && (len(p.below) > 0 || p.text):
			_, _ = in.ReadToken()
			for in.PeekKind() != ']' {
				value, _ := in.ReadValue()
				read(p, slices.Clone(value), labels)
			}
		case p.text && v.Kind() == '"':
			texts = append(texts, fmt.Sprintf("%q %s ", unquote(nil, v), p.path))
		case p.label:
			*labels += p.name + string(v[:min(len(v), 100)]) + " "
		}
	}
	read(root, v, new(string))
	return append(texts, values...), true
}

// walked finds it with a walker.
func walked(data []byte, root *place) (out []string, ok bool) {
	var values []string
	w := walker{each: func(path string, v jsontext.Value) { values = append(values, path+"="+string(v)) }}
	ok = w.walk(data, root)
	for _, f := range w.texts {
		if t := data[f.start:f.end]; !bytes.Equal(unquote(nil, t), f.text) {
			return []string{"a text is not where it was found"}, ok
		}
		out = append(out, fmt.Sprintf("%q %s", f.text, f.key))
	}
	return append(out, values...), ok
}

// sameFound fails a test in which a walker finds something else in JSON than a decoder.
func sameFound(t interface{ Fatalf(string, ...any) }, data []byte) bool {
	want, ok := decoded(data, sample())
	if !ok || bytes.Count(data, []byte("[")) > maxDepth {
		_, _ = walked(data, sample()) // which must not fail
		return false
	}
	if got, ok := walked(data, sample()); !ok || !slices.Equal(got, want) {
		t.Fatalf("%q: %q, %v, want %q", data, got, ok, want)
	}
	return true
}

var placed = []string{
	`{"type":"a","delta":"text"}`, `{"delta":{"text":"a\n\"é"},"type":"b"}`, `{"delta":["a",{"text":"b"},["c"]],"other":[{"delta":"x"}]}`,
	`{"choices":[{"delta":{"content":"a","kind":1},"index":0},{"index":1,"delta":{"content":"b"},"stop":"x"}],"usage":{"delta":"y"}}`,
	`{"choi\u0063es":{"delta":{"content":"a"}},"usage":null}`, `{"delta":"a","delta":"b"}`, ` { } `, `{"delta":"\ud83d"}`, `{"choices":[],"stop":1}`,
	`{"usage":1e3,"choices":[[{"stop":null}]],"type":"ping"}`,
}

func TestPlaces(t *testing.T) {
	for _, data := range placed {
		if !sameFound(t, []byte(data)) {
			t.Errorf("%s is no JSON", data)
		}
	}
	deep := strings.Repeat("[", 100_000)
	for _, data := range []string{``, `[]`, `{`, `{}{}`, `{"delta"}`, `{"delta":}`, `{"delta":"a`, `{"delta":"a",}`, `{,"delta":"a"}`, `{"choices":[{"index":0}`, `{"choices":` + deep} {
		if _, ok := walked([]byte(data), sample()); ok {
			t.Errorf("%.40q is taken for an object", data)
		}
	}
}

// TestWalkedIsDecoded: JSON that was changed in places is read as a decoder reads it.
func TestWalkedIsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SampledFrom(placed).Draw(t, "event")
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			from := rapid.IntRange(0, len(data)).Draw(t, "from")
			to := min(len(data), from+rapid.IntRange(0, 3).Draw(t, "removed"))
			data = data[:from] + rapid.StringMatching("([{}\\[\\]\",:0-9 \n\\\\tfa]|é|\"delta\":|\"text\":|\"type\":|\"usage\":|\\\\u0073){0,3}").Draw(t, "added") + data[to:]
		}
		sameFound(t, []byte(data))
	})
}

func FuzzPlaces(f *testing.F) {
	for _, data := range placed {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameFound(t, data) })
}
