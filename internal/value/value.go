// Package value encodes the plain data that crosses between a sandbox and the
// framework: Python's values, each in exactly one form, with caps on depth,
// number and size.
//
// An encoded value is a tag, then a length and bytes, or a count and members.
// The decoder takes nothing else, so data of a hostile sandbox can be compared
// and passed on byte for byte. [Python] is the other end.
package value

import (
	_ "embed" // the Python half
	"strconv"
)

//go:embed encode.py
var pythonEncoder string

//go:embed decode.py
var pythonDecoder string

// Python returns the source of the Python classes Encoder and Decoder.
func Python() string { return pythonEncoder + pythonDecoder }

// Caps on one value. Real rows stay below a hundredth of them.
const (
	MaxDepth = 64
	MaxNodes = 200_000 // values in it, itself included
	// MaxArguments is the number of values in what trusted code sends.
	MaxArguments = 1 << 20
	MaxSize      = 8 << 20 // bytes
	// MaxMessage is the size of a message with a value, in bytes.
	MaxMessage = MaxSize + 64<<10

	maxRangeDigits   = 67 // the hex digits, their length and the tag
	maxDecimalDigits = 10_000
)

// Kind is the type of a value: the tag that its encoding begins with.
type Kind byte

// The kinds. A set's members are in the order of their encodings; a range has
// three integers, a fraction two; a deque begins with its bound or none.
const (
	KindNone      Kind = 'N'
	KindTrue      Kind = 'T'
	KindFalse     Kind = 'F'
	KindInt       Kind = 'I' // lower-case hex
	KindFloat     Kind = 'D' // 8 bytes, big-endian, one NaN
	KindComplex   Kind = 'C' // two floats
	KindString    Kind = 'S' // UTF-8, lone surrogates allowed
	KindBytes     Kind = 'B'
	KindByteArray Kind = 'A'
	KindList      Kind = 'L'
	KindTuple     Kind = 'U'
	KindSet       Kind = 'E'
	KindFrozenSet Kind = 'Z'
	KindDict      Kind = 'M'
	KindRange     Kind = 'R'
	KindDeque     Kind = 'Q'
	KindDecimal   Kind = 'P' // as Python's str writes it
	KindFraction  Kind = 'K'
	KindCounter   Kind = 'c'
	KindOrdered   Kind = 'O' // an OrderedDict
	KindDefault   Kind = 'd' // a defaultdict: its factory comes first
	KindKeys      Kind = 'k'
	KindValues    Kind = 'v'
	KindItems     Kind = 'm'
	KindIterator  Kind = 'J'
	KindHandle    Kind = 'H' // the number of an object that stays in its process
	KindSlice     Kind = 'G' // three integers or nones
	KindView      Kind = 'w' // a memoryview of bytes
	KindArray     Kind = 'y' // its type code comes first
)

// Value is a decoded value: an atom, or a container of items. The items of
// dicts of all kinds and of dict items alternate between keys and values.
type Value struct {
	Kind  Kind
	Atom  []byte
	Items []Value

	packed int // the members of a list or tuple whose atom is a run; 0 is no run
}

// Text makes a string.
func Text(s string) Value { return Value{Kind: KindString, Atom: []byte(s)} }

// Bytes makes a bytes object.
func Bytes(b []byte) Value { return Value{Kind: KindBytes, Atom: b} }

// Tuple makes a tuple of fewer than 16 members.
func Tuple(items ...Value) Value { return Value{Kind: KindTuple, Items: items} }

// Int makes an integer.
func Int(n int64) Value { return Value{Kind: KindInt, Atom: strconv.AppendInt(nil, n, 16)} }

// Bool makes a boolean.
func Bool(b bool) Value {
	if b {
		return Value{Kind: KindTrue}
	}
	return Value{Kind: KindFalse}
}

// Append appends the value's only encoding to b.
func (v Value) Append(b []byte) []byte {
	b = append(b, byte(v.Kind))
	switch v.Kind {
	case KindNone, KindTrue, KindFalse:
		return b
	case KindFloat, KindComplex:
		return append(b, v.Atom...)
	case KindInt, KindString, KindBytes, KindByteArray, KindDecimal, KindHandle, KindView:
		b = strconv.AppendInt(b, int64(len(v.Atom)), 10)
		b = append(b, ':')
		return append(b, v.Atom...)
	case KindRange, KindFraction, KindSlice:
	default:
		b = strconv.AppendInt(b, int64(v.count()), 10)
		b = append(b, ':')
	}
	if v.packed > 0 {
		return append(b, v.Atom...)
	}
	for _, it := range v.Items {
		b = it.Append(b)
	}
	return b
}

// count is the number in front of a container's items.
func (v Value) count() int {
	switch v.Kind {
	case KindDict, KindItems, KindCounter, KindOrdered, KindDefault:
		return len(v.Items) / 2 // without the factory
	case KindDeque, KindArray:
		return len(v.Items) - 1
	}
	return max(v.packed, len(v.Items))
}
