package wire

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// eventScanner reads the events that come most often in a fraction of a decoder's
// time. It gives up on all that it does not expect, which the decoder reads then.
// What it accepts means the same to the decoder.
type eventScanner struct{ cursor }

// scan is [walker.decode] for events of the usual form.
func (w *walker) scan(data []byte) bool {
	s := eventScanner{cursor{Text: data}}
	if !utf8.Valid(data) || !w.scanObject(&s, false) {
		return false
	}
	s.blank()
	return s.At == len(data)
}

// scanObject reads an event, or the object that has a text in the Messages API.
func (w *walker) scanObject(s *eventScanner, inDelta bool) bool {
	if !s.Skip('{') {
		return false
	}
	seen := uint(0)
	for first := true; !s.Skip('}'); first = false {
		if !first && !s.Skip(',') {
			return false
		}
		name, bit := usual(s.string())
		if bit == 0 || seen&bit != 0 || !s.Skip(':') {
			return false
		}
		seen |= bit
		if name == "delta" && !inDelta {
			if s.blank(); s.Next() == '{' {
				if !w.scanObject(s, true) {
					return false
				}
				continue
			}
		}
		value := s.value()
		if value == nil || !w.scanned(name, value, s.At, inDelta) {
			return false
		}
	}
	return true
}

// scanned notes a member whose value was just read.
func (w *walker) scanned(name string, value []byte, end int, inDelta bool) bool {
	switch name {
	case "type":
		if value[0] != '"' {
			return false
		}
		if !inDelta {
			w.kind = unquote(w.kind[:0], value)
		}
	case "delta":
		if !inDelta {
			w.found(name, value, end)
		}
	case "text", "partial_json", "thinking", "signature":
		if inDelta {
			w.found(name, value, end)
		}
	case "index", "output_index", "content_index", "summary_index", "item_id":
		if !inDelta {
			w.indexed(name, value)
		}
	}
	return true
}

// usual returns a name that events have, and its bit; 0 is any other name. That
// each comes once can be told from the bits.
func usual(quoted []byte) (name string, bit uint) {
	switch string(quoted) {
	case `"type"`:
		return "type", 1 << 0
	case `"delta"`:
		return "delta", 1 << 1
	case `"index"`:
		return "index", 1 << 2
	case `"output_index"`:
		return "output_index", 1 << 3
	case `"content_index"`:
		return "content_index", 1 << 4
	case `"summary_index"`:
		return "summary_index", 1 << 5
	case `"item_id"`:
		return "item_id", 1 << 6
	case `"text"`:
		return "text", 1 << 7
	case `"partial_json"`:
		return "partial_json", 1 << 8
	case `"thinking"`:
		return "thinking", 1 << 9
	case `"signature"`:
		return "signature", 1 << 10
	case `"sequence_number"`:
		return "sequence_number", 1 << 11
	case `"logprobs"`:
		return "logprobs", 1 << 12
	case `"obfuscation"`:
		return "obfuscation", 1 << 13
	}
	return "", 0
}

// unquote appends the text of a valid string.
func unquote(to, quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return append(to, quoted[1:len(quoted)-1]...)
	}
	to, _ = jsontext.AppendUnquote(to, quoted)
	return to
}

// value returns a string, a count or an empty array, nil if anything else comes.
func (s *eventScanner) value() []byte {
	s.blank()
	start := s.At
	switch c := s.Next(); c {
	case '"':
		return s.string()
	case '[':
		if s.At++; !s.Skip(']') {
			return nil
		}
	default:
		for s.Next() >= '0' && s.Next() <= '9' {
			s.At++
		}
		if n := s.At - start; n == 0 || n > 1 && c == '0' {
			return nil
		}
	}
	return s.Text[start:s.At]
}

// string returns a string with its quotes, nil if none comes, or one with a
// character by its number.
func (s *eventScanner) string() []byte {
	s.blank()
	start := s.At
	if s.Next() != '"' {
		return nil
	}
	for s.At++; s.At < len(s.Text); s.At++ {
		switch c := s.Text[s.At]; {
		case c == '"':
			s.At++
			return s.Text[start:s.At]
		case c < ' ':
			return nil
		case c == '\\':
			if s.At++; bytes.IndexByte([]byte(`"\/bfnrt`), s.Next()) < 0 {
				return nil
			}
		}
	}
	return nil
}
