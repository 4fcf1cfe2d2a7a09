package wire

// cursor is a place in a JSON text, for readers that need only parts of it. It checks
// nothing: its users know that the text is valid, or give up on what they do not expect.
type cursor struct {
	Text []byte
	At   int
}

// Next returns the byte at which the cursor is, 0 at the end.
func (c *cursor) Next() byte {
	if c.At < len(c.Text) {
		return c.Text[c.At]
	}
	return 0
}

// blank passes over blanks.
func (c *cursor) blank() {
	for b := c.Next(); b == ' ' || b == '\n' || b == '\r' || b == '\t'; b = c.Next() {
		c.At++
	}
}

// Skip passes over blanks and a byte, and reports whether that was there.
func (c *cursor) Skip(b byte) bool {
	c.blank()
	if c.Next() != b {
		return false
	}
	c.At++
	return true
}
