package codecompletion

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Caps on one value that crosses. Real rows stay below a hundredth of them.
const (
	maxDepth         = 64
	maxNodes         = 200_000
	maxArguments     = 1 << 20 // values in what the pack's own tests pass
	maxValue         = 8 << 20 // bytes
	maxRangeDigits   = 67      // the hex digits, their length and the tag
	maxDecimalDigits = 10_000
)

// errMalformed says that bytes are not the encoding of a value.
var errMalformed = errors.New("malformed value")

// errObjectHash says that a set or a dict has objects of the candidate's as
// members or keys, and the row's tests may not ask for their hash.
var errObjectHash = fmt.Errorf("an object's hash is needed: %w", errMalformed)

// kind is the type of a value: the tag that its encoding begins with.
type kind byte

// The kinds. A set's members are in the order of their encodings; a range has
// three integers, a fraction two; a deque begins with its bound or none.
const (
	kindNone      kind = 'N'
	kindTrue      kind = 'T'
	kindFalse     kind = 'F'
	kindInt       kind = 'I' // lower-case hex
	kindFloat     kind = 'D' // 8 bytes, big-endian, one NaN
	kindComplex   kind = 'C' // two floats
	kindString    kind = 'S' // UTF-8, lone surrogates allowed
	kindBytes     kind = 'B'
	kindByteArray kind = 'A'
	kindList      kind = 'L'
	kindTuple     kind = 'U'
	kindSet       kind = 'E'
	kindFrozenSet kind = 'Z'
	kindDict      kind = 'M'
	kindRange     kind = 'R'
	kindDeque     kind = 'Q'
	kindDecimal   kind = 'P' // as Python's str writes it
	kindFraction  kind = 'K'
	kindCounter   kind = 'c'
	kindOrdered   kind = 'O' // an OrderedDict
	kindDefault   kind = 'd' // a defaultdict: what makes its values comes first
	kindKeys      kind = 'k'
	kindValues    kind = 'v'
	kindItems     kind = 'm'
	kindIterator  kind = 'J'
	kindHandle    kind = 'H' // the number of an object that stays in the worker
	kindSlice     kind = 'G' // three integers or nones
	kindView      kind = 'w' // a memoryview of bytes
	kindArray     kind = 'y' // its letter comes first
)

// value is one decoded value: an atom, or a container of items. The items of
// dicts of all kinds and of dict items alternate between keys and values.
type value struct {
	kind   kind
	atom   []byte
	items  []value
	packed int // the members of a list or tuple whose atom is a run; 0 is no run
}

func stringValue(s string) value      { return value{kind: kindString, atom: []byte(s)} }
func bytesValue(b []byte) value       { return value{kind: kindBytes, atom: b} }
func tupleValue(items ...value) value { return value{kind: kindTuple, items: items} }

func intValue(n int64) value {
	return value{kind: kindInt, atom: strconv.AppendInt(nil, n, 16)}
}

func boolValue(b bool) value {
	if b {
		return value{kind: kindTrue}
	}
	return value{kind: kindFalse}
}

// appendTo appends the value's only encoding to b.
func (v value) appendTo(b []byte) []byte {
	b = append(b, byte(v.kind))
	switch v.kind {
	case kindNone, kindTrue, kindFalse:
		return b
	case kindFloat, kindComplex:
		return append(b, v.atom...)
	case kindInt, kindString, kindBytes, kindByteArray, kindDecimal, kindHandle, kindView:
		b = strconv.AppendInt(b, int64(len(v.atom)), 10)
		b = append(b, ':')
		return append(b, v.atom...)
	case kindRange, kindFraction, kindSlice:
	default:
		b = strconv.AppendInt(b, int64(v.count()), 10)
		b = append(b, ':')
	}
	if v.packed > 0 {
		return append(b, v.atom...)
	}
	for _, it := range v.items {
		b = it.appendTo(b)
	}
	return b
}

// count is the number that stands in front of a container's items.
func (v value) count() int {
	switch v.kind {
	case kindDict, kindItems, kindCounter, kindOrdered, kindDefault:
		return len(v.items) / 2 // without what makes the values
	case kindDeque, kindArray:
		return len(v.items) - 1
	}
	return max(v.packed, len(v.items))
}

// hashable reports whether the value can be a key in the oracle. An object can
// where the tests may ask it for its hash.
func (d *decoder) hashable(v value) bool {
	switch v.kind {
	case kindTuple, kindFrozenSet:
		return !slices.ContainsFunc(v.items, func(it value) bool { return !d.hashable(it) })
	case kindHandle:
		if !d.operators && d.err == nil {
			d.err = errObjectHash
		}
		return d.operators
	case kindList, kindByteArray, kindSet, kindDict, kindCounter, kindOrdered, kindDefault,
		kindDeque, kindKeys, kindValues, kindItems, kindIterator, kindSlice, kindArray:
		return false
	}
	return true
}

// decoder reads values off a frame. After a failure it returns zero values;
// its error is asked for once, at the end.
type decoder struct {
	data    []byte
	pos     int
	nodes   int
	most    int // nodes that may be spent; 0 is maxNodes
	handles bool
	// operators allows objects where hashes are needed.
	operators bool
	err       error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s at byte %d: %w", what, d.pos, errMalformed)
	}
}

// end checks that nothing is left over.
func (d *decoder) end() error {
	if d.err == nil && d.pos != len(d.data) {
		d.fail("data after the value")
	}
	return d.err
}

func (d *decoder) take(n int) []byte {
	if d.err == nil && (n < 0 || n > len(d.data)-d.pos) {
		d.fail("the value is cut off")
	}
	if d.err != nil {
		return nil
	}
	part := d.data[d.pos : d.pos+n : d.pos+n]
	d.pos += n
	return part
}

// tag takes one byte; it is 0 after a failure, which is no tag.
func (d *decoder) tag() kind {
	if b := d.take(1); len(b) == 1 {
		return kind(b[0])
	}
	return 0
}

// number reads a decimal of at most eight digits and its colon.
func (d *decoder) number() int {
	rest := d.data[min(d.pos, len(d.data)):]
	n := bytes.IndexByte(rest[:min(len(rest), 9)], ':')
	if n < 1 || n > 1 && rest[0] == '0' {
		d.fail("a length is expected")
		return 0
	}
	out := 0
	for _, c := range d.take(n) {
		if c < '0' || c > '9' {
			d.fail("a length is expected")
			return 0
		}
		out = out*10 + int(c-'0')
	}
	d.take(1)
	return out
}

// tuple enters a tuple and returns how many members follow.
func (d *decoder) tuple() int {
	if d.tag() != kindTuple {
		d.fail("a tuple is expected")
	}
	return d.number()
}

// str reads a string.
func (d *decoder) str() string {
	v := d.value(1)
	if v.kind != kindString {
		d.fail("a string is expected")
	}
	return string(v.atom)
}

// bool reads a boolean.
func (d *decoder) bool() bool {
	v := d.value(1)
	if v.kind != kindTrue && v.kind != kindFalse {
		d.fail("a boolean is expected")
	}
	return v.kind == kindTrue
}

// integer reads a small number.
func (d *decoder) integer() int64 {
	v := d.value(1)
	n, err := strconv.ParseInt(string(v.atom), 16, 64)
	if v.kind != kindInt || err != nil {
		d.fail("a small number is expected")
	}
	return n
}

// value reads one value at the given depth; the outermost is 1.
func (d *decoder) value(depth int) value {
	d.spend(1)
	if depth > maxDepth {
		d.fail("nesting is too deep")
	}
	v := value{kind: d.tag()}
	if d.err != nil {
		return value{}
	}
	d.content(&v, depth)
	if d.err != nil {
		return value{}
	}
	return v
}

func (d *decoder) content(v *value, depth int) {
	switch v.kind {
	case kindNone, kindTrue, kindFalse:
	case kindFloat, kindComplex:
		d.floats(v)
	case kindInt, kindString, kindBytes, kindByteArray, kindDecimal, kindHandle, kindView:
		v.atom = d.take(d.number())
		d.checkAtom(*v)
	case kindList, kindTuple:
		d.sequence(v, depth)
	case kindValues, kindIterator:
		d.items(v, d.number(), depth)
	case kindSet, kindFrozenSet:
		d.set(v, depth)
	case kindKeys:
		d.keyed(v, d.number(), 1, depth)
	case kindDict, kindItems, kindCounter, kindOrdered:
		d.keyed(v, d.number(), 2, depth)
	case kindDefault:
		n := d.number()
		v.items = []value{d.factory()}
		d.keyed(v, n, 2, depth)
	case kindRange:
		d.span(v)
	case kindFraction:
		v.items = []value{d.bareInt(), d.bareInt()}
		if n := v.items[1].atom; d.err == nil && (n[0] == '-' || n[0] == '0') {
			d.fail("a denominator is positive")
		}
	case kindDeque:
		d.deque(v, depth)
	case kindSlice:
		for range 3 {
			v.items = append(v.items, d.bound())
		}
	case kindArray:
		d.array(v, depth)
	default:
		d.fail("unknown tag")
	}
}

func (d *decoder) spend(nodes int) {
	d.nodes += nodes
	if d.nodes > d.limit() {
		d.fail("too many values")
	}
}

// limit is the number of values that may be in the data.
func (d *decoder) limit() int {
	if d.most > 0 {
		return d.most
	}
	return maxNodes
}

// room refuses a count that cannot be in the rest of the data.
func (d *decoder) room(n int) bool {
	if n > len(d.data)-d.pos {
		d.fail("the value is cut off")
	}
	return d.err == nil
}

func (d *decoder) items(v *value, n, depth int) {
	if !d.room(n) {
		return
	}
	v.items = slices.Grow(v.items, min(n, 64)) // no more: counts nest
	for range n {
		v.items = append(v.items, d.value(depth+1))
		if d.err != nil {
			return
		}
	}
}

func (d *decoder) set(v *value, depth int) {
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
			d.fail("members of a set are hashable, distinct and in order")
		}
		if d.err != nil {
			return
		}
		v.items, last = append(v.items, it), raw
	}
}

// keyed reads n entries of size items, of which the first is a key.
func (d *decoder) keyed(v *value, n, size, depth int) {
	if !d.room(n * size) {
		return
	}
	seen := make(map[string]bool, min(n, 64))
	for range n {
		start := d.pos
		key := d.value(depth + 1)
		raw := string(d.data[start:d.pos])
		if d.err == nil && (!d.hashable(key) || seen[raw]) {
			d.fail("keys are hashable and distinct")
		}
		seen[raw] = true
		v.items = append(v.items, key)
		if size == 2 {
			v.items = append(v.items, d.value(depth+1))
		}
		if d.err != nil {
			return
		}
	}
}

// factory reads what a defaultdict makes of a missing key: none, or one of the
// builtins that run no code of the value's maker.
func (d *decoder) factory() value {
	v := value{kind: d.tag()}
	switch v.kind {
	case kindNone:
		return v
	case kindString:
		v.atom = d.take(d.number())
	}
	switch string(v.atom) {
	case "bool", "dict", "float", "int", "list", "set", "str", "tuple":
	default:
		d.fail("an unknown factory")
	}
	return v
}

func (d *decoder) bareInt() value {
	v := value{kind: d.tag()}
	if v.kind != kindInt {
		d.fail("an integer is expected")
		return value{}
	}
	v.atom = d.take(d.number())
	d.checkAtom(v)
	return v
}

// span reads a range, which counts as many values as it stands for.
func (d *decoder) span(v *value) {
	var n [3]big.Int
	for i := range n {
		start := d.pos
		it := d.bareInt()
		if d.err == nil && d.pos-start > maxRangeDigits {
			d.fail("a bound of a range is too large")
		}
		if d.err != nil {
			return
		}
		n[i].SetString(string(it.atom), 16)
		v.items = append(v.items, it)
	}
	if n[2].Sign() == 0 {
		d.fail("the step of a range is zero")
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
		d.fail("too many values")
		return
	}
	d.spend(int(length.Int64()))
}

func (d *decoder) deque(v *value, depth int) {
	n := d.number()
	if !d.room(n + 1) {
		return
	}
	bound := d.bound()
	limit, err := strconv.ParseInt(string(bound.atom), 16, 64)
	if bound.kind != kindNone && (err != nil || limit < int64(n)) {
		d.fail("a deque holds more than its bound")
	}
	v.items = append(v.items, bound)
	d.items(v, n, depth)
}

// bound reads an integer or none.
func (d *decoder) bound() value {
	if d.pos < len(d.data) && d.data[d.pos] == byte(kindNone) {
		d.take(1)
		return value{kind: kindNone}
	}
	return d.bareInt()
}

// array reads an array of numbers that its letter has room for.
func (d *decoder) array(v *value, depth int) {
	n := d.number()
	letter := value{kind: d.tag()}
	if letter.kind != kindString {
		d.fail("an array begins with its letter")
		return
	}
	letter.atom = d.take(d.number())
	if len(letter.atom) != 1 || !bytes.Contains([]byte("bBhHiIlLqQfd"), letter.atom) {
		d.fail("an unknown letter of an array")
		return
	}
	v.items = []value{letter}
	d.items(v, n, depth)
	if d.err != nil {
		return
	}
	for _, it := range v.items[1:] {
		if !fits(it, string(letter.atom)) {
			d.fail("a member that its array has no room for")
			return
		}
	}
}

// fits reports whether an array of a letter can hold a number. The letters are
// Python's, and l has eight bytes.
func fits(v value, letter string) bool {
	bits, ok := map[string]int{"b": 8, "h": 16, "i": 32, "l": 64, "q": 64}[strings.ToLower(letter)]
	var err error
	switch {
	case letter == "d":
		return v.kind == kindFloat
	case letter == "f":
		return v.kind == kindFloat && isSingle(v.atom)
	case !ok || v.kind != kindInt:
		return false
	case letter == strings.ToUpper(letter):
		_, err = strconv.ParseUint(string(v.atom), 16, bits)
	default:
		_, err = strconv.ParseInt(string(v.atom), 16, bits)
	}
	return err == nil
}

// isSingle reports whether a float has no more digits than four bytes hold.
func isSingle(atom []byte) bool {
	x := math.Float64frombits(binary.BigEndian.Uint64(atom))
	return math.IsNaN(x) || float64(float32(x)) == x
}

// canonicalNaN is the only NaN that crosses.
const canonicalNaN = 0x7ff8000000000000

func (d *decoder) floats(v *value) {
	n := 8
	if v.kind == kindComplex {
		n = 16
	}
	v.atom = d.take(n)
	if !hasOneNaN(v.atom) {
		d.fail("a NaN with a payload")
	}
}

func (d *decoder) checkAtom(v value) {
	ok := true
	switch v.kind {
	case kindInt:
		ok = isHex(bytes.TrimPrefix(v.atom, []byte("-"))) && string(v.atom) != "-0"
	case kindHandle:
		ok = d.handles && isHex(v.atom) && len(v.atom) <= 8
	case kindString:
		ok = isText(v.atom)
	case kindDecimal:
		ok = isDecimal(v.atom)
	}
	if d.err == nil && !ok {
		d.fail("not in canonical form")
	}
}

// isHex reports whether b is a natural number in lower-case hex.
func isHex(b []byte) bool {
	if len(b) == 0 || b[0] == '0' && len(b) > 1 {
		return false
	}
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isText reports whether b is UTF-8 in which surrogates may stand alone.
func isText(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n <= 1 {
			if len(b) < 3 || b[0] != 0xED || b[1] < 0xA0 || b[1] > 0xBF || b[2] < 0x80 || b[2] > 0xBF {
				return false
			}
			n = 3
		}
		b = b[n:]
	}
	return true
}

// isDecimal reports whether b is a number as str(decimal.Decimal) writes it.
func isDecimal(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("-"))
	if string(b) == "NaN" || string(b) == "Infinity" {
		return true
	}
	digits, exponent, hasExponent := bytes.Cut(b, []byte("E"))
	if hasExponent && (len(exponent) < 2 || len(exponent) > 5 ||
		exponent[0] != '+' && exponent[0] != '-' || !isDigits(exponent[1:])) {
		return false
	}
	whole, part, hasPart := bytes.Cut(digits, []byte("."))
	return len(digits) <= maxDecimalDigits && isDigits(whole) && (!hasPart || isDigits(part))
}

func isDigits(b []byte) bool {
	return len(b) > 0 && !bytes.ContainsFunc(b, func(r rune) bool { return r < '0' || r > '9' })
}
