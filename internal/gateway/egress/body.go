package egress

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// body is the body of a request. The library reads it in a goroutine of its
// own, perhaps still after the response has begun; once it is at its end or
// abandoned, nothing reads the agent's connection for it.
type body struct {
	mu   sync.Mutex
	from io.Reader
	err  error // of the last read; io.EOF at the body's end
}

func (s *session) body(req *request) *body {
	switch req.length {
	case -1:
		return &body{from: &chunks{r: s.r}}
	case 0:
		return &body{err: io.EOF}
	}
	return &body{from: &exactly{r: s.r, left: req.length}}
}

// Read reads on.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.from.Read(p)
	b.err = err
	return n, err
}

// Close does nothing: the connection is not the body's to close.
func (b *body) Close() error { return nil }

// abandon waits for the read that is under way, and prevents further ones.
func (b *body) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = io.ErrClosedPipe
	}
}

// state returns the error of the last read. While one is under way, the body
// has not ended.
func (b *body) state() error {
	if !b.mu.TryLock() {
		return nil
	}
	defer b.mu.Unlock()
	return b.err
}

// finished reports whether the body was read to its end.
func (b *body) finished() bool { return b.state() == io.EOF } //nolint:errorlint // a reader's own end

// reason is the ledger's word for a body that did not come to its end.
func (b *body) reason() string {
	err := b.state()
	var bad *refusal
	switch {
	case errors.As(err, &bad):
		return bad.reason
	case err != nil && !b.finished():
		return "cut"
	}
	return ""
}

// exactly reads a body of a known length.
type exactly struct {
	r    io.Reader
	left int64
}

func (x *exactly) Read(p []byte) (int, error) {
	n, err := x.r.Read(p[:min(int64(len(p)), x.left)])
	x.left -= int64(n)
	switch {
	case x.left == 0:
		return n, io.EOF
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// chunks reads a body in chunks, without extensions.
type chunks struct {
	r    *bufio.Reader
	left int64 // of the current chunk
	err  error // io.EOF after the last one
}

// maxTrailer bounds the fields behind a body, which are read and dropped.
const maxTrailer = 8 << 10

func (c *chunks) Read(p []byte) (int, error) {
	if c.err == nil && c.left == 0 {
		c.err = c.begin()
	}
	if c.err != nil || len(p) == 0 {
		return 0, c.err
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); c.left == 0 && err == nil {
		_, err = c.line(2) // CRLF and nothing else
	}
	if err == io.EOF { //nolint:errorlint // a reader's own end
		err = io.ErrUnexpectedEOF
	}
	c.err = err
	return n, nil
}

// begin reads the line before a chunk; after the last one, the trailer.
func (c *chunks) begin() error {
	line, err := c.line(18)
	if err != nil {
		return err
	}
	if line == "" || len(line) > 15 || strings.Trim(line, "0123456789abcdefABCDEF") != "" {
		return malformed("the length of a chunk is invalid")
	}
	if c.left, err = strconv.ParseInt(line, 16, 64); err != nil || c.left > 0 {
		return err
	}
	trailer := &lineReader{r: c.r, left: maxTrailer}
	if refused := trailer.fields(http.Header{}); refused != nil {
		return refused
	}
	return io.EOF
}

func (c *chunks) line(limit int) (string, error) {
	line, refused := (&lineReader{r: c.r, left: limit}).next()
	if refused != nil {
		return "", malformed("a chunk is invalid")
	}
	return line, nil
}
