package hub

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"log"
)

// silent is a log that nobody reads: what workers do wrong is answered.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// check compares content with what is left of it without secrets.
type check struct {
	from        io.Reader
	whole, left hash.Hash
	cleaner     io.WriteCloser // nil if there is nothing to look for
}

// checked looks for the operator's secrets in content.
func (h *Hub) checked(from io.Reader) *check {
	c := &check{from: from, whole: sha256.New(), left: sha256.New()}
	if h.Secrets != nil && !h.Secrets.Empty() {
		c.cleaner = h.Secrets.Writer(c.left)
	}
	return c
}

// errSecret is the end of content with a secret in it.
var errSecret = errors.New("the candidate has a secret of the operator in it")

// Read passes content on, whose end is an error if there was a secret.
func (c *check) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.cleaner == nil {
		return n, err
	}
	c.whole.Write(p[:n])
	if _, werr := c.cleaner.Write(p[:n]); werr != nil {
		return n, werr
	}
	if errors.Is(err, io.EOF) {
		if cerr := c.cleaner.Close(); cerr != nil {
			return n, cerr
		}
		if !bytes.Equal(c.whole.Sum(nil), c.left.Sum(nil)) {
			return n, errSecret
		}
	}
	return n, err
}
