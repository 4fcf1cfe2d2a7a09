// Package wire passes models of files from the sandboxes that read them to the runner, as
// bytes. What comes from a sandbox is bounded and decoded strictly: a model takes no more
// memory than [MaxMemory], its texts are valid UTF-8, its tables and sheets are as package
// artifact says, and no byte is left over. It keeps these
// bytes apart from the parsers on their one side and the rules on their other.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
	"unsafe"

	"securebench/internal/artifact"
)

// MaxMemory bounds what a model takes, in bytes: its texts, and the places of all that is
// in its lists.
const MaxMemory = 256 << 20

// MaxBytes is the length of the longest message: of nine bytes for each number that takes
// eight, and what is not in any list.
const MaxBytes = MaxMemory/8*9 + 1<<10

var (
	// ErrTooLarge says that a model is larger than [MaxMemory].
	ErrTooLarge = errors.New("it says more than is taken")
	// ErrInvalid says that bytes are no model.
	ErrInvalid = errors.New("these bytes are no model of a file")
)

// Check returns [ErrTooLarge] for a model that cannot be passed.
func Check(f *artifact.File) error {
	c := &coder{left: MaxMemory}
	c.file(f)
	return c.err
}

// Write writes a model, which [Check] has found to be small enough.
func Write(w io.Writer, f *artifact.File) error {
	c := &coder{w: w, left: MaxMemory}
	c.file(f)
	c.flush()
	return c.err
}

// Read reads a message, of which the texts of the model are parts.
func Read(message string) (*artifact.File, error) {
	c := &coder{in: message, reads: true, left: MaxMemory}
	f := new(artifact.File)
	c.file(f)
	if c.err == nil && c.in != "" {
		c.err = fmt.Errorf("%w: %d bytes follow it", ErrInvalid, len(c.in))
	}
	if c.err != nil {
		return nil, c.err
	}
	return f, nil
}

// coder writes or reads a model, or counts what it takes if it does neither. After an
// error it does nothing.
type coder struct {
	in    string // what has not been read
	reads bool
	w     io.Writer
	buf   []byte
	left  int64 // of the memory
	err   error
}

// bufSize is how much is written at once.
const bufSize = 64 << 10

func (c *coder) flush() {
	if c.err == nil && c.w != nil {
		_, c.err = c.w.Write(c.buf)
		c.buf = c.buf[:0]
	}
}

// written passes on what was written, once it is enough.
func (c *coder) written() {
	if len(c.buf) > bufSize {
		c.flush()
	}
}

func (c *coder) invalid(why string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrInvalid, why)
	}
}

// charge counts memory.
func (c *coder) charge(n, each int64) {
	if c.err == nil && n > c.left/max(1, each) {
		c.err = ErrTooLarge
	}
	c.left -= n * each
}

// number codes a number that is not negative.
func (c *coder) number(v *int64) {
	switch {
	case c.err != nil:
	case !c.reads:
		if *v < 0 {
			c.invalid("a number is negative")
			return
		}
		if c.w != nil {
			c.buf = binary.AppendUvarint(c.buf, uint64(*v))
			c.written()
		}
	default:
		n, size := uvarint(c.in)
		if size <= 0 || n > math.MaxInt64 || size > 1 && c.in[size-1] == 0 {
			c.invalid("a number is not whole, too large or longer than it has to be")
			return
		}
		*v, c.in = int64(n), c.in[size:]
	}
}

// uvarint is [binary.Uvarint] of a text.
func uvarint(s string) (uint64, int) {
	if s != "" && s[0] < 0x80 { // most are short
		return uint64(s[0]), 1
	}
	var buf [binary.MaxVarintLen64]byte
	return binary.Uvarint(buf[:copy(buf[:], s)])
}

func (c *coder) int(v *int) {
	n := int64(*v)
	c.number(&n)
	*v = int(n)
}

func (c *coder) bool(v *bool) {
	var n int64
	if *v {
		n = 1
	}
	c.number(&n)
	if n > 1 {
		c.invalid("neither true nor false")
	}
	*v = n == 1
}

// raw codes bytes after their number.
func (c *coder) raw(v string) string {
	n := int64(len(v))
	c.number(&n)
	c.charge(n, 1)
	switch {
	case c.err != nil:
		return ""
	case !c.reads:
		if c.w != nil {
			c.buf = append(c.buf, v...)
		}
		return v
	case n > int64(len(c.in)):
		c.invalid("a text is not whole")
		return ""
	}
	v, c.in = c.in[:n], c.in[n:]
	return v
}

// bytes codes bytes. An empty slice is read as nil.
func (c *coder) bytes(v *[]byte) {
	*v = []byte(c.raw(string(*v)))
	if len(*v) == 0 {
		*v = nil
	}
}

func (c *coder) text(v *string) {
	*v = c.raw(*v)
	if c.err == nil && !utf8.ValidString(*v) {
		c.invalid("a text is not UTF-8")
	}
}

func (c *coder) float(v *float64) {
	if c.err != nil {
		return
	}
	if !c.reads {
		if c.w != nil {
			c.buf = binary.BigEndian.AppendUint64(c.buf, math.Float64bits(*v))
			c.written()
		}
		return
	}
	if len(c.in) < 8 {
		c.invalid("a number is not whole")
		return
	}
	var b [8]byte
	copy(b[:], c.in)
	*v, c.in = math.Float64frombits(binary.BigEndian.Uint64(b[:])), c.in[8:]
}

// list codes a list, each of whose items takes at least a byte.
func list[T any](c *coder, v *[]T, item func(*coder, *T)) {
	n := int64(len(*v))
	c.number(&n)
	var one T
	c.charge(n, int64(unsafe.Sizeof(one)))
	if c.err == nil && c.reads && n > int64(len(c.in)) {
		c.invalid("a list is not whole")
	}
	if c.err != nil {
		return
	}
	if c.reads {
		*v = nil
		if n > 0 {
			*v = make([]T, n)
		}
	}
	for i := range *v {
		if item(c, &(*v)[i]); c.err != nil {
			return
		}
	}
}

// optional codes what may be there.
func optional[T any](c *coder, v **T, item func(*coder, *T)) {
	there := *v != nil
	if c.bool(&there); c.err != nil || !there {
		*v = nil
		return
	}
	if c.reads {
		*v = new(T)
	}
	c.charge(1, int64(unsafe.Sizeof(**v)))
	item(c, *v)
}

// What list and optional need a function for.

func text(c *coder, v *string)    { c.text(v) }
func integer(c *coder, v *int)    { c.int(v) }
func float(c *coder, v *float64)  { c.float(v) }
func texts(c *coder, v *[]string) { list(c, v, text) }
