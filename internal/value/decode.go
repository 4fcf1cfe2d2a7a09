package value

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// ErrMalformed is wrapped by the error of bytes that are not the encoding of
// the value that was asked for.
var ErrMalformed = errors.New("malformed value")

// ErrHandleHash is the error of a set or a dict with handles as members or
// keys, where the decoder does not allow that. It wraps [ErrMalformed].
var ErrHandleHash = fmt.Errorf("the hash of a handle is needed: %w", ErrMalformed)

// envelope is the number of values that a message may hold beside the one it
// carries.
const envelope = 64

// Decoder reads the values of one message. After an error it returns zero
// values; [Decoder.End] returns the error.
type Decoder struct {
	// Handles allows handles.
	Handles bool
	// HashHandles allows them as members of sets and also as keys.
	HashHandles bool
	// Limit is the number of values that may be read; 0 is [MaxNodes].
	Limit int

	data  []byte
	pos   int
	nodes int
	err   error
}

// NewDecoder makes a decoder of the values in data, which it keeps: values
// share its memory.
func NewDecoder(data []byte) *Decoder { return &Decoder{data: data, nodes: -envelope} }

// Fail makes the decoder fail, if it has not yet.
func (d *Decoder) Fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s at byte %d: %w", what, d.pos, ErrMalformed)
	}
}

// Err returns the error so far.
func (d *Decoder) Err() error { return d.err }

// End checks that nothing is left over, and returns the first error.
func (d *Decoder) End() error {
	if d.err == nil && d.pos != len(d.data) {
		d.Fail("data after the value")
	}
	return d.err
}

// Value reads one value.
func (d *Decoder) Value() Value { return d.value(1) }

// Tuple enters a tuple and returns the number of its members, which follow.
func (d *Decoder) Tuple() int {
	if d.tag() != KindTuple {
		d.Fail("a tuple is expected")
	}
	return d.number()
}

// Text reads a string.
func (d *Decoder) Text() string {
	v := d.value(1)
	if v.Kind != KindString {
		d.Fail("a string is expected")
	}
	return string(v.Atom)
}

// Bool reads a boolean.
func (d *Decoder) Bool() bool {
	v := d.value(1)
	if v.Kind != KindTrue && v.Kind != KindFalse {
		d.Fail("a boolean is expected")
	}
	return v.Kind == KindTrue
}

// Int reads an integer of 64 bits.
func (d *Decoder) Int() int64 {
	v := d.value(1)
	n, err := strconv.ParseInt(string(v.Atom), 16, 64)
	if v.Kind != KindInt || err != nil {
		d.Fail("a small integer is expected")
	}
	return n
}

func (d *Decoder) take(n int) []byte {
	if d.err == nil && (n < 0 || n > len(d.data)-d.pos) {
		d.Fail("the value is cut off")
	}
	if d.err != nil {
		return nil
	}
	part := d.data[d.pos : d.pos+n : d.pos+n]
	d.pos += n
	return part
}

// tag takes one byte; it is 0 after an error, which is not a tag.
func (d *Decoder) tag() Kind {
	if b := d.take(1); len(b) == 1 {
		return Kind(b[0])
	}
	return 0
}

// number reads a decimal number of at most eight digits and its colon.
func (d *Decoder) number() int {
	rest := d.data[min(d.pos, len(d.data)):]
	n := bytes.IndexByte(rest[:min(len(rest), 9)], ':')
	if n < 1 || n > 1 && rest[0] == '0' {
		d.Fail("a length is expected")
		return 0
	}
	out := 0
	for _, c := range d.take(n) {
		if c < '0' || c > '9' {
			d.Fail("a length is expected")
			return 0
		}
		out = out*10 + int(c-'0')
	}
	d.take(1)
	return out
}

// value reads one value at the given depth; the outermost is 1.
func (d *Decoder) value(depth int) Value {
	d.spend(1)
	if depth > MaxDepth {
		d.Fail("nesting is too deep")
	}
	v := Value{Kind: d.tag()}
	if d.err != nil {
		return Value{}
	}
	d.content(&v, depth)
	if d.err != nil {
		return Value{}
	}
	return v
}

func (d *Decoder) content(v *Value, depth int) {
	switch v.Kind {
	case KindNone, KindTrue, KindFalse:
	case KindFloat, KindComplex:
		d.floats(v)
	case KindInt, KindString, KindBytes, KindByteArray, KindDecimal, KindHandle, KindView:
		v.Atom = d.take(d.number())
		d.checkAtom(*v)
	case KindList, KindTuple:
		d.sequence(v, depth)
	case KindValues, KindIterator:
		d.items(v, d.number(), depth)
	case KindSet, KindFrozenSet:
		d.set(v, depth)
	case KindKeys:
		d.keyed(v, d.number(), 1, depth)
	case KindDict, KindItems, KindCounter, KindOrdered:
		d.keyed(v, d.number(), 2, depth)
	case KindDefault:
		n := d.number()
		v.Items = []Value{d.factory()}
		d.keyed(v, n, 2, depth)
	case KindRange:
		d.span(v)
	case KindFraction:
		v.Items = []Value{d.bareInt(), d.bareInt()}
		if n := v.Items[1].Atom; d.err == nil && (n[0] == '-' || n[0] == '0') {
			d.Fail("a denominator is positive")
		}
	case KindDeque:
		d.deque(v, depth)
	case KindSlice:
		for range 3 {
			v.Items = append(v.Items, d.bound())
		}
	case KindArray:
		d.array(v, depth)
	default:
		d.Fail("unknown tag")
	}
}

func (d *Decoder) spend(nodes int) {
	d.nodes += nodes
	if d.nodes > d.limit() {
		d.Fail("too many values")
	}
}

// limit is the number of values that may be in the data.
func (d *Decoder) limit() int {
	if d.Limit > 0 {
		return d.Limit
	}
	return MaxNodes
}

// room refuses a count that cannot be in the rest of the data.
func (d *Decoder) room(n int) bool {
	if n > len(d.data)-d.pos {
		d.Fail("the value is cut off")
	}
	return d.err == nil
}

func (d *Decoder) items(v *Value, n, depth int) {
	if !d.room(n) {
		return
	}
	v.Items = slices.Grow(v.Items, min(n, 64)) // no more: counts nest
	for range n {
		v.Items = append(v.Items, d.value(depth+1))
		if d.err != nil {
			return
		}
	}
}
