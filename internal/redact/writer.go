package redact

import "io"

// maxPiece bounds what is worked on, and so held, at a time.
const maxPiece = 64 << 10

// Writer redacts a stream. Its memory is bounded by the longest secret and
// the size of a piece. It is not safe for concurrent use.
type Writer struct {
	w     io.Writer
	auto  *automaton
	state int32
	buf   []byte // bytes that are not written yet
	// spans are the parts of buf that matched, merged where they overlap, in
	// order.
	spans []span
	out   []byte
	err   error
}

// span is a part of the buffer that a mark replaces. Two secrets that overlap
// become one span, so that no part of the second stays.
type span struct {
	start, end int
	mark       int32 // of the match that began first
	length     int   // of that match
}

// Write redacts p. It reports all of p as written unless writing on failed.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.auto == nil {
		n, err := w.w.Write(p)
		w.err = err
		return n, err
	}
	for n := 0; n < len(p); {
		piece := p[n:min(n+maxPiece, len(p))]
		w.scan(piece)
		if w.flush(len(w.buf) - int(w.auto.nodes[w.state].depth)); w.err != nil {
			return n, w.err
		}
		n += len(piece)
	}
	return len(p), nil
}

// Close writes what was held back. It does not close the writer below.
func (w *Writer) Close() error {
	if w.err == nil && w.auto != nil {
		w.flush(len(w.buf))
		w.state = 0
	}
	return w.err
}

// scan appends a piece to the buffer and notes its matches.
func (w *Writer) scan(piece []byte) {
	i := len(w.buf)
	w.buf = append(w.buf, piece...)
	a, s := w.auto, w.state
	for ; i < len(w.buf); i++ {
		if s == 0 {
			i = a.skip(w.buf, i)
		}
		s = a.move(s, w.buf[i])
		if n := a.nodes[s]; n.match > 0 {
			w.match(span{i + 1 - int(n.match), i + 1, n.mark, int(n.match)})
		}
	}
	w.state = s
}

// match adds a span and merges it with those that it overlaps.
func (w *Writer) match(m span) {
	for len(w.spans) > 0 {
		last := w.spans[len(w.spans)-1]
		if last.end <= m.start {
			break
		}
		if last.start < m.start || last.start == m.start && last.length > m.length {
			m.start, m.mark, m.length = last.start, last.mark, last.length
		}
		w.spans = w.spans[:len(w.spans)-1]
	}
	w.spans = append(w.spans, m)
}

// flush writes the buffer up to safe, from where on a match may still begin,
// and moves the rest to the front.
func (w *Writer) flush(safe int) {
	w.out = w.out[:0]
	at := 0
	for len(w.spans) > 0 && w.spans[0].start < safe {
		s := w.spans[0]
		w.out = append(w.out, w.buf[at:max(s.start, at)]...)
		if s.end > safe {
			// It may still grow: keep it, and drop what it replaces. Its
			// start moves out of the buffer.
			at = safe
			break
		}
		w.out = append(w.out, w.auto.marks[s.mark]...)
		at = s.end
		w.spans = w.spans[1:]
	}
	w.out = append(w.out, w.buf[at:safe]...)
	if len(w.out) > 0 {
		_, w.err = w.w.Write(w.out)
	}
	w.buf = append(w.buf[:0], w.buf[safe:]...)
	for i := range w.spans {
		w.spans[i].start -= safe
		w.spans[i].end -= safe
	}
}
