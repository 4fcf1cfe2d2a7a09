package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner finds the parts of a JSON text that is known to be valid. A body is
// read by a decoder once: to do that again at each depth takes several times as
// long.
type scanner struct{ cursor }

// errScan is the error of a text that is not valid after all.
var errScan = invalid("the body is not JSON in UTF-8")

// walk calls step before every field or element of an object or array.
func walk(v jsontext.Value, open byte, otherwise string, step func(*scanner) error) error {
	s := &scanner{cursor{Text: v}}
	if !s.Skip(open) {
		return invalid(otherwise)
	}
	end := open + 2 // in ASCII, of both
	for first := true; !s.Skip(end); first = false {
		if !first && !s.Skip(',') {
			return errScan
		}
		if err := step(s); err != nil {
			return err
		}
	}
	if s.blank(); s.At != len(s.Text) {
		return errScan
	}
	return nil
}

// value returns the value that comes next, nil if there is none.
func (s *scanner) value() jsontext.Value {
	s.blank()
	start, depth := s.At, 0
	for s.At < len(s.Text) {
		switch s.Text[s.At] {
		case '"':
			s.string()
		case '{', '[':
			s.At++
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return nil
			}
			s.At++
			depth--
		case ',', ':', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return nil
			}
			s.At++
			continue
		default:
			s.word()
		}
		if depth == 0 {
			break
		}
	}
	if depth > 0 || s.At == start {
		return nil
	}
	return s.Text[start:s.At:s.At]
}

// string passes over a string.
func (s *scanner) string() {
	for {
		s.At++
		i := bytes.IndexByte(s.Text[s.At:], '"')
		if i < 0 {
			s.At = len(s.Text)
			return
		}
		escapes := 0
		for escapes < i && s.Text[s.At+i-1-escapes] == '\\' {
			escapes++
		}
		if s.At += i; escapes%2 == 0 {
			s.At++
			return
		}
	}
}

// word passes over a number, true, false or null.
func (s *scanner) word() {
	for ; s.At < len(s.Text); s.At++ {
		switch s.Text[s.At] {
		case ',', ':', ']', '}', '[', '{', '"', ' ', '\n', '\r', '\t':
			return
		}
	}
}
