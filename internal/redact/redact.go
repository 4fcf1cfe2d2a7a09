// Package redact keeps secrets and control characters out of what is shown
// and stored.
//
// A [Registry] replaces registered secrets by [redacted:NAME], in the encodings
// in which they usually leak, even if a secret is wrapped over lines or begins
// in one stream and continues in another. It catches secrets that are printed
// by accident or encoded once. It does not catch a secret that is encrypted, cut
// into pieces or spelled out, so nothing may rely only on it. [Escape] makes
// text from outside safe for terminals and logs, and [Excerpt] bounds it. Redact
// before escaping: escaping changes the bytes that the registry looks for.
package redact

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"securebench/internal/lazyregexp"
)

// The length limits of a secret in bytes. Shorter texts occur by chance.
const (
	minSecret = 8
	maxSecret = 64 << 10
	// MinKey is the length from which a provider's key is one. Servers on one's own
	// machine take words such as "EMPTY" or "sk-local", which are no secrets and occur
	// by chance.
	MinKey = 16
)

// A mark is the name of a secret between these.
const (
	markStart = "[redacted:"
	markEnd   = "]"
)

var namePattern = lazyregexp.New(`^[A-Za-z0-9_.-]{1,100}$`)

// Registry holds secrets. The zero value is empty and ready; all methods are
// safe for concurrent use.
type Registry struct {
	mu       sync.Mutex
	marks    []string       // replacements
	secrets  []string       // what each of them replaces
	patterns map[string]int // encoded secret to its index in marks
	auto     *automaton     // of the patterns; nil if it must be rebuilt
}

// String returns the name of the type: the secrets must not be printed.
func (r *Registry) String() string { return "redact.Registry" }

// GoString is String, for %#v.
func (r *Registry) GoString() string { return r.String() }

// Add registers a secret under the name that replaces it. Errors never quote the
// value. A value is refused if it is too short or too long, or if it could
// overlap with the text that replaces a secret.
func (r *Registry) Add(name string, value []byte) error {
	switch {
	case !namePattern.MatchString(name):
		return errors.New("the name of a secret may have only letters, digits and _ . -")
	case len(unbroken(string(value))) < minSecret:
		return fmt.Errorf("the value of %s has fewer than %d bytes, too few to redact", name, minSecret)
	case len(value) > maxSecret:
		return fmt.Errorf("the value of %s has more than %d bytes, too many to redact", name, maxSecret)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := markStart + name + markEnd
	if r.clashes(mark, unbroken(string(value))) {
		return fmt.Errorf("the value of %s overlaps the text that replaces secrets, so it cannot be redacted", name)
	}
	if r.patterns == nil {
		r.patterns = map[string]int{}
	}
	for _, f := range encodings(value) {
		f = unbroken(f)
		if _, known := r.patterns[f]; !known {
			r.patterns[f] = len(r.marks)
		}
	}
	r.marks = append(r.marks, mark)
	r.secrets = append(r.secrets, unbroken(string(value)))
	r.auto = nil
	return nil
}

// clashes reports whether a mark and a secret, at least one of them new, could
// overlap in the output. Only plain secrets count: an encoded secret that a mark
// happens to complete reveals nothing.
func (r *Registry) clashes(mark, secret string) bool {
	if overlap(mark, secret) {
		return true
	}
	for i, m := range r.marks {
		if overlap(m, secret) || overlap(mark, r.secrets[i]) {
			return true
		}
	}
	return false
}

// overlap reports whether a text that contains mark could contain pattern with a
// byte of that mark in it.
func overlap(mark, pattern string) bool {
	if strings.Contains(mark, pattern) || strings.Contains(pattern, mark) {
		return true
	}
	for n := 1; n < min(len(mark), len(pattern)); n++ {
		if mark[:n] == pattern[len(pattern)-n:] || mark[len(mark)-n:] == pattern[:n] {
			return true
		}
	}
	return false
}

// automaton returns the matcher of all secrets, nil if there are none.
func (r *Registry) automaton() *automaton {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.auto == nil && len(r.patterns) > 0 {
		r.auto = newAutomaton(r.patterns, r.marks)
	}
	return r.auto
}

// Empty reports whether there is nothing to redact.
func (r *Registry) Empty() bool { return r.automaton() == nil }

// Find returns the name of the first secret that ends in a text, "" if there is none.
func (r *Registry) Find(text []byte) string {
	a := r.automaton()
	if a == nil {
		return ""
	}
	var name string
	m := matcher{auto: a}
	m.scan(text, 0, func(s span) {
		if name == "" {
			name = strings.TrimSuffix(strings.TrimPrefix(a.marks[s.mark], markStart), markEnd)
		}
	})
	return name
}

// Bytes returns b with every registered secret replaced. It may return b itself.
func (r *Registry) Bytes(b []byte) []byte { return r.Split(b)[0] }

// Writer returns a writer that redacts one stream to w, even across writes. It
// redacts the secrets that are registered now. It holds back bytes that may
// begin a secret, so it must be closed; that does not close w.
func (r *Registry) Writer(w io.Writer) *Writer {
	return &Writer{w: w, own: matcher{auto: r.automaton()}}
}

// Split redacts texts that are published side by side. A secret may also begin
// at the end of one text and continue at the start of another. It may return the
// texts themselves.
func (r *Registry) Split(texts ...[]byte) [][]byte {
	a := r.automaton()
	out := slices.Clone(texts)
	if a == nil {
		return out
	}
	found := make([][]span, len(texts))
	for i, first := range texts {
		for j, second := range texts {
			if i == j && len(texts) > 1 {
				continue
			}
			m, n := matcher{auto: a}, len(first)
			note := func(s span) {
				if s.start < n {
					found[i] = merge(found[i], span{s.start, min(s.end, n), s.mark, s.length})
				}
				if s.end > n {
					found[j] = merge(found[j], span{max(s.start-n, 0), s.end - n, s.mark, s.length})
				}
			}
			m.scan(first, 0, note)
			if i != j {
				m.scan(second, n, note)
			}
		}
	}
	for i, spans := range found {
		out[i] = replace(texts[i], spans, a.marks)
	}
	return out
}

// replace replaces spans by their marks.
func replace(text []byte, spans []span, marks []string) []byte {
	if len(spans) == 0 {
		return text
	}
	var out []byte
	at := 0
	for _, s := range spans {
		out = append(append(out, text[at:s.start]...), marks[s.mark]...)
		at = s.end
	}
	return append(out, text[at:]...)
}

// NamesSecret reports whether the name of a variable or a parameter suggests that it
// holds a secret.
func NamesSecret(name string) bool {
	upper := strings.ToUpper(name)
	for _, part := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "APIKEY", "PRIVATE"} {
		if strings.Contains(upper, part) {
			return true
		}
	}
	words := strings.FieldsFunc(upper, func(r rune) bool { return r < '0' || r > '9' && r < 'A' || r > 'Z' })
	return slices.ContainsFunc(words, func(w string) bool {
		return w == "KEY" || w == "KEYS" || w == "AUTH" || w == "PAT" || w == "PASS"
	})
}
