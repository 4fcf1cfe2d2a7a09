// Package bounded reads and keeps data whose length others choose, up to a bound.
package bounded

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
)

// ErrTooLong is the error of a stream that is longer than it may be.
var ErrTooLong = errors.New("longer than the limit")

// ReadAll reads a stream of at most limit bytes; it is [ErrTooLong] if there are more.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, ErrTooLong
	}
	return b, err
}

// Text returns at most the first limit bytes of a text, as whole characters.
func Text(s string, limit int) string { return strings.ToValidUTF8(s[:min(len(s), limit)], "") }

// Until reads until a context ends, whose cause is then the error.
func Until(ctx context.Context, r io.Reader) io.Reader { return until{ctx, r} }

type until struct {
	ctx context.Context
	r   io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// Writer passes on as many bytes as are left, and fails with Err at more.
type Writer struct {
	W    io.Writer
	Left int64
	Err  error
}

func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.W.Write(p[:max(min(int64(len(p)), w.Left), 0)])
	if w.Left -= int64(n); err == nil && n < len(p) {
		err = w.Err
	}
	return n, err
}

// Head keeps the first Max bytes of what is written to it, and never fails. It may be
// written to and read at the same time.
type Head struct {
	Max int

	mu      sync.Mutex
	kept    []byte
	dropped int64
}

func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(p), h.Max-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.dropped += int64(len(p) - n)
	return len(p), nil
}

// Read returns what is kept, and how many bytes were dropped.
func (h *Head) Read() (kept []byte, dropped int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.kept), h.dropped
}

// String returns what is kept.
func (h *Head) String() string {
	kept, _ := h.Read()
	return string(kept)
}
