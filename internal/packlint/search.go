package packlint

import (
	"bytes"
	"strings"

	"securebench/internal/packlint/likeness"
)

// The bounds of what is searched for.
const (
	minSecret  = 16       // bytes below which texts are alike by chance
	minLike    = 64       // bytes below which a text laid out in another way is
	maxSecret  = 1 << 20  // bytes of one; larger ones are compared as whole files
	maxSecrets = 64 << 20 // bytes of all that are kept
)

// secrets are the texts that must not be in an image. Their occurrences in a stream are found
// by a hash that rolls over it, and copies in another form by their marks.
type secrets struct {
	names   []string // what each is, for people
	texts   [][]byte // nil for one that is compared whole
	ways    []likeness.How
	index   likeness.Index
	anchors map[uint64][]anchor
	filter  []uint64 // a bit for each hash of an anchor, once the search begins
	known   map[string]bool
	size    *int // of all images that are kept
	own     int  // of this one
	longest int
	leftOut int // texts beyond the bounds
}

func newSecrets(size *int) *secrets {
	return &secrets{known: map[string]bool{}, anchors: map[uint64][]anchor{}, size: size}
}

// begin is called before the search.
func (s *secrets) begin() {
	s.filter = make([]uint64, filterBits/64)
	for h := range s.anchors {
		bit := spread(h) % filterBits
		s.filter[bit/64] |= 1 << (bit % 64)
	}
}

// anchor is a place in a text that is looked for first.
type anchor struct{ text, offset int }

const (
	window     = minSecret // bytes of an anchor
	factor     = 0x9e3779b97f4a7c15 | 1
	filterBits = 1 << 22
)

// leaving is factor to the power of window: what a byte counts when it leaves a window.
func leaving() (f uint64) {
	f = 1
	for range window {
		f *= factor
	}
	return f
}

// add adds a text that must not be found. It may be in another layout if it is a program.
func (s *secrets) add(name string, content []byte, m likeness.Marks, ways likeness.How) {
	text := bytes.TrimSpace(content)
	if content != nil && (len(text) < minSecret || s.known[string(text)]) {
		return
	}
	if *s.size+len(text) > maxSecrets {
		s.leftOut++
		return
	}
	if len(text) < minLike {
		ways &= likeness.Same
	}
	id := len(s.texts)
	s.index.Add(int32(id), m.Whole())
	s.names, s.ways = append(s.names, name), append(s.ways, ways)
	*s.size, s.own = *s.size+len(text), s.own+len(text)
	if content == nil || len(text) > maxSecret {
		s.texts = append(s.texts, nil)
		return
	}
	s.texts, s.longest = append(s.texts, text), max(s.longest, len(text))
	s.known[string(text)] = true
	h, best, at := uint64(0), uint64(0), 0
	for i, b := range text {
		h = roll(h, b)
		if i >= window {
			h -= (uint64(text[i-window]) + 1) * outgoing
		}
		if rank := spread(h); i >= window-1 && rank >= best { // the same choice in every text, and rarely where texts begin alike
			best, at = rank, i-window+1
		}
	}
	key := hashOf(text[at : at+window])
	s.anchors[key] = append(s.anchors[key], anchor{id, at})
}

var outgoing = leaving() //nolint:gochecknoglobals // a constant

func roll(h uint64, b byte) uint64 { return h*factor + uint64(b) + 1 }

func hashOf(text []byte) (h uint64) {
	for _, b := range text {
		h = roll(h, b)
	}
	return h
}

func spread(h uint64) uint64 {
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// in looks for the texts in a part of a stream.
func (s *secrets) in(part []byte, found func(id int)) {
	h := uint64(0)
	for i, b := range part {
		h = roll(h, b)
		if i >= window {
			h -= (uint64(part[i-window]) + 1) * outgoing
		}
		if i < window-1 {
			continue
		}
		bit := spread(h) % filterBits
		if s.filter[bit/64]&(1<<(bit%64)) == 0 {
			continue
		}
		for _, a := range s.anchors[h] {
			start := i - window + 1 - a.offset
			if text := s.texts[a.text]; start >= 0 && bytes.HasPrefix(part[start:], text) {
				found(a.text)
			}
		}
	}
}

// searcher looks for texts in what is written to it.
type searcher struct {
	*secrets
	buf   []byte
	found func(id int)
}

// partSize is how much of a stream is searched at a time, beside the longest text.
const partSize = 1 << 20

// Write never fails.
func (s *searcher) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), partSize+s.longest-len(s.buf))
		s.buf, rest = append(s.buf, rest[:n]...), rest[n:]
		if len(s.buf) == partSize+s.longest {
			s.in(s.buf, s.found)
			s.buf = append(s.buf[:0], s.buf[len(s.buf)-max(s.longest-1, 0):]...)
		}
	}
	return len(p), nil
}

// end searches the rest, and is ready for another stream.
func (s *searcher) end() {
	s.in(s.buf, s.found)
	s.buf = s.buf[:0]
}

// telltale reports whether a value can give an answer away wherever it stands: a name of a
// file or of a test, and what a family lists itself, can be in any image.
func telltale(text string, schema []byte) bool {
	text = strings.TrimSpace(text)
	if len(text) < minSecret || bytes.Contains(schema, []byte(`"`+text+`"`)) {
		return false
	}
	return strings.ContainsAny(text, " \n\t") || !strings.Contains(text, "/") && !strings.Contains(text, "::")
}
