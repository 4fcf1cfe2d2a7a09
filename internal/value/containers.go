package value

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// hashable reports whether a value can be a key or a member of a set. A handle
// can where the decoder allows it.
func (d *Decoder) hashable(v Value) bool {
	switch v.Kind {
	case KindTuple, KindFrozenSet:
		return !slices.ContainsFunc(v.Items, func(it Value) bool { return !d.hashable(it) })
	case KindHandle:
		if !d.HashHandles && d.err == nil {
			d.err = ErrHandleHash
		}
		return d.HashHandles
	case KindList, KindByteArray, KindSet, KindDict, KindCounter, KindOrdered, KindDefault,
		KindDeque, KindKeys, KindValues, KindItems, KindIterator, KindSlice, KindArray:
		return false
	}
	return true
}

func (d *Decoder) set(v *Value, depth int) {
	n := d.number()
	if !d.room(n) {
		return
	}
	var last []byte
	for range n {
		start := d.pos
		it := d.value(depth + 1)
		raw := d.data[start:d.pos]
		if d.err == nil && (!d.hashable(it) || bytes.Compare(raw, last) <= 0) {
			d.Fail("members of a set are hashable, distinct and in order")
		}
		if d.err != nil {
			return
		}
		v.Items, last = append(v.Items, it), raw
	}
}

// keyed reads n entries of size items, the first of which is a key.
func (d *Decoder) keyed(v *Value, n, size, depth int) {
	if !d.room(n * size) {
		return
	}
	seen := make(map[string]bool, min(n, 64))
	for range n {
		start := d.pos
		key := d.value(depth + 1)
		raw := string(d.data[start:d.pos])
		if d.err == nil && (!d.hashable(key) || seen[raw]) {
			d.Fail("keys are hashable and distinct")
		}
		seen[raw] = true
		v.Items = append(v.Items, key)
		if size == 2 {
			v.Items = append(v.Items, d.value(depth+1))
		}
		if d.err != nil {
			return
		}
	}
}

// factory reads the factory of a defaultdict: none, or a builtin that runs no
// code of the sender's.
func (d *Decoder) factory() Value {
	v := Value{Kind: d.tag()}
	switch v.Kind {
	case KindNone:
		return v
	case KindString:
		v.Atom = d.take(d.number())
	}
	switch string(v.Atom) {
	case "bool", "dict", "float", "int", "list", "set", "str", "tuple":
	default:
		d.Fail("an unknown factory")
	}
	return v
}

// span reads a range, which counts as the values that it holds.
func (d *Decoder) span(v *Value) {
	var n [3]big.Int
	for i := range n {
		start := d.pos
		it := d.bareInt()
		if d.err == nil && d.pos-start > maxRangeDigits {
			d.Fail("a bound of a range is too large")
		}
		if d.err != nil {
			return
		}
		n[i].SetString(string(it.Atom), 16)
		v.Items = append(v.Items, it)
	}
	if n[2].Sign() == 0 {
		d.Fail("the step of a range is zero")
		return
	}
	var length big.Int
	length.Sub(&n[1], &n[0])
	if length.Sign()*n[2].Sign() <= 0 {
		return
	}
	length.Add(&length, &n[2]).Sub(&length, big.NewInt(int64(n[2].Sign())))
	length.Quo(&length, &n[2])
	if !length.IsInt64() || length.Int64() > int64(d.limit()) {
		d.Fail("too many values")
		return
	}
	d.spend(int(length.Int64()))
}

func (d *Decoder) deque(v *Value, depth int) {
	n := d.number()
	if !d.room(n + 1) {
		return
	}
	bound := d.bound()
	limit, err := strconv.ParseInt(string(bound.Atom), 16, 64)
	if bound.Kind != KindNone && (err != nil || limit < int64(n)) {
		d.Fail("a deque holds more than its bound")
	}
	v.Items = append(v.Items, bound)
	d.items(v, n, depth)
}

// bound reads an integer or none.
func (d *Decoder) bound() Value {
	if d.pos < len(d.data) && d.data[d.pos] == byte(KindNone) {
		d.take(1)
		return Value{Kind: KindNone}
	}
	return d.bareInt()
}

// array reads an array of numbers that fit its type code.
func (d *Decoder) array(v *Value, depth int) {
	n := d.number()
	code := Value{Kind: d.tag()}
	if code.Kind != KindString {
		d.Fail("an array begins with its type code")
		return
	}
	code.Atom = d.take(d.number())
	if len(code.Atom) != 1 || !bytes.Contains([]byte("bBhHiIlLqQfd"), code.Atom) {
		d.Fail("an unknown type code of an array")
		return
	}
	v.Items = []Value{code}
	d.items(v, n, depth)
	if d.err != nil {
		return
	}
	for _, it := range v.Items[1:] {
		if !fits(it, string(code.Atom)) {
			d.Fail("a member that does not fit its array")
			return
		}
	}
}

// fits reports whether an array of a type code can hold a number. The codes are
// Python's; l has eight bytes.
func fits(v Value, code string) bool {
	bits, ok := map[string]int{"b": 8, "h": 16, "i": 32, "l": 64, "q": 64}[strings.ToLower(code)]
	var err error
	switch {
	case code == "d":
		return v.Kind == KindFloat
	case code == "f":
		return v.Kind == KindFloat && isSingle(v.Atom)
	case !ok || v.Kind != KindInt:
		return false
	case code == strings.ToUpper(code):
		_, err = strconv.ParseUint(string(v.Atom), 16, bits)
	default:
		_, err = strconv.ParseInt(string(v.Atom), 16, bits)
	}
	return err == nil
}

// isSingle reports whether a float has no more digits than four bytes hold.
func isSingle(atom []byte) bool {
	x := math.Float64frombits(binary.BigEndian.Uint64(atom))
	return math.IsNaN(x) || float64(float32(x)) == x
}
