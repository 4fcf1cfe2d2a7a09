// Package cursor moves through a JSON text, for readers that need only parts of
// it. It checks nothing: its users know that the text is valid, or give up on
// what they do not expect.
package cursor

// Cursor is a place in a text.
type Cursor struct {
	Text []byte
	At   int
}

// Next returns the byte at which the cursor is, 0 at the end.
func (c *Cursor) Next() byte {
	if c.At < len(c.Text) {
		return c.Text[c.At]
	}
	return 0
}

// Blank passes over blanks.
func (c *Cursor) Blank() {
	for b := c.Next(); b == ' ' || b == '\n' || b == '\r' || b == '\t'; b = c.Next() {
		c.At++
	}
}

// Skip passes over blanks and a byte, and reports whether that was there.
func (c *Cursor) Skip(b byte) bool {
	c.Blank()
	if c.Next() != b {
		return false
	}
	c.At++
	return true
}
