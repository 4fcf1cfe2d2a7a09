package redact

import (
	"io"
	"slices"
	"sync"
)

// maxPiece is how many bytes are scanned, and so held, at a time.
const maxPiece = 64 << 10

// Writer redacts a stream. Its memory is bounded by the longest secret with the
// longest line breaks in it, plus one piece. It is not safe for concurrent use,
// but the writers of a [Group] are.
type Writer struct {
	w     io.Writer
	own   matcher
	group *Group // nil for a single stream
	base  int    // the offset of the buffer in the stream
	buf   []byte // bytes that are not written yet
	// spans are the matches that are not written yet, in order; those that
	// overlap are merged.
	spans []span
	out   []byte
	err   error
}

// span is a part of a stream that a mark replaces. Overlapping secrets become one
// span, so that no part of the second remains.
type span struct {
	start, end int
	mark       int32 // of the match that began first
	length     int   // of that match's pattern
}

// Write redacts p. It reports all of p as written unless the underlying writer
// failed.
func (w *Writer) Write(p []byte) (int, error) {
	if w.group != nil {
		w.group.mu.Lock()
		defer w.group.mu.Unlock()
	}
	if w.err != nil {
		return 0, w.err
	}
	if w.own.auto == nil {
		n, err := w.w.Write(p)
		w.err = err
		return n, err
	}
	for n := 0; n < len(p); {
		piece := p[n:min(n+maxPiece, len(p))]
		if w.passes(piece) {
			_, w.err = w.w.Write(piece)
			w.base += len(piece)
		} else {
			w.flush(w.scan(piece))
		}
		if w.err != nil {
			return n, w.err
		}
		n += len(piece)
	}
	return len(p), nil
}

// Close writes the bytes that were held back. It does not close the underlying
// writer. Close the writers of a group after all of its streams have ended.
func (w *Writer) Close() error {
	if w.group != nil {
		w.group.mu.Lock()
		defer w.group.mu.Unlock()
	}
	if w.err == nil && w.own.auto != nil {
		w.flush(w.base + len(w.buf))
		w.own.reset()
	}
	return w.err
}

// Held returns how many bytes of what was written are held back.
func (w *Writer) Held() int { return len(w.buf) }

// passes reports whether nothing is held back, and nothing of a piece is or may
// begin a secret: most pieces are written as they come.
func (w *Writer) passes(piece []byte) bool {
	return w.group == nil && len(w.buf) == 0 && len(w.spans) == 0 && w.own.passes(piece)
}

// scan appends a piece to the buffer, notes its matches, and returns the offset
// in the stream before which nothing can become a match any more.
func (w *Writer) scan(piece []byte) (safe int) {
	pos := w.base + len(w.buf)
	w.buf = append(w.buf, piece...)
	end := pos + len(piece)
	w.own.scan(piece, pos, w.match)
	safe = w.own.pending(end)
	if w.group != nil {
		safe = min(safe, w.group.scan(w, piece, pos))
	}
	return safe
}

// match adds a span.
func (w *Writer) match(m span) { w.spans = merge(w.spans, m) }

// merge adds a span to a list and merges it with those that it overlaps.
func merge(spans []span, m span) []span {
	i := len(spans)
	for i > 0 && spans[i-1].end > m.start {
		i--
	}
	j := i
	for ; j < len(spans) && spans[j].start < m.end; j++ {
		s := spans[j]
		if s.start < m.start || s.start == m.start && s.length > m.length {
			m.start, m.mark, m.length = s.start, s.mark, s.length
		}
		m.end = max(m.end, s.end)
	}
	return slices.Replace(spans, i, j, m)
}

// flush writes the buffer up to safe, where a match may still begin, and moves
// the rest to the front.
func (w *Writer) flush(safe int) {
	w.out = w.out[:0]
	at := w.base
	for len(w.spans) > 0 && w.spans[0].start < safe {
		s := w.spans[0]
		w.out = append(w.out, w.part(at, s.start)...)
		if s.end > safe {
			// The span may still grow: keep it, and drop the bytes that it
			// replaces. Its start is then before the buffer.
			at = safe
			break
		}
		w.out = append(w.out, w.own.auto.marks[s.mark]...)
		at = s.end
		w.spans = w.spans[1:]
	}
	w.out = append(w.out, w.part(at, safe)...)
	if len(w.out) > 0 {
		_, w.err = w.w.Write(w.out)
	}
	w.buf = append(w.buf[:0], w.part(safe, w.base+len(w.buf))...)
	w.base = safe
}

// part returns the part of the buffer from start to end, offsets in the stream.
func (w *Writer) part(start, end int) []byte {
	return w.buf[max(start, w.base)-w.base : max(end, start, w.base)-w.base]
}

// Group is a set of streams that a reader sees side by side: a secret may begin
// in one of them and continue in another, in the order of the writes.
type Group struct {
	auto *automaton

	mu    sync.Mutex
	joint matcher
	pos   int // bytes written to all streams together
	runs  []run
}

// run is a piece of a group: n bytes at offset pos in the group and at in the
// stream.
type run struct {
	w          *Writer
	pos, n, at int
}

// Group returns a group without streams. It redacts the secrets that are
// registered now.
func (r *Registry) Group() *Group {
	a := r.automaton()
	return &Group{auto: a, joint: matcher{auto: a}}
}

// Writer adds a stream to the group; see [Registry.Writer].
func (g *Group) Writer(w io.Writer) *Writer {
	return &Writer{w: w, own: matcher{auto: g.auto}, group: g}
}

// scan reads the next piece of the group, notes matches in every stream that they
// extend over, and returns the offset in w before which none can begin.
func (g *Group) scan(w *Writer, piece []byte, at int) (safe int) {
	g.runs = append(g.runs, run{w, g.pos, len(piece), at})
	g.joint.scan(piece, g.pos, func(m span) {
		for _, r := range g.runs {
			start, end := max(m.start, r.pos), min(m.end, r.pos+r.n)
			if start < end {
				r.w.match(span{r.at + start - r.pos, r.at + end - r.pos, m.mark, m.length})
			}
		}
	})
	g.pos += len(piece)
	pending := g.joint.pending(g.pos)
	g.runs = slices.DeleteFunc(g.runs, func(r run) bool { return r.pos+r.n <= pending })
	safe = at + len(piece)
	for _, r := range g.runs {
		if r.w == w {
			safe = min(safe, r.at+max(pending-r.pos, 0))
		}
	}
	return safe
}
