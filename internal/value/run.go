package value

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
)

// A run replaces the members of a list or tuple that has at least minRun of
// them, all of one plain type: "#", a type code, and the members side by side.
// It makes long plain data cheap, here and in Python.
//
//	b h i q  integers of 1, 2, 4 or 8 bytes, big-endian; the fewest that hold all
//	d        floats of 8 bytes, big-endian
//	?        booleans of one byte
//	s        strings, joined by NUL, with their total length in front
//
// Only members that fit no run are written one by one.

// minRun is the number of members from which a run is mandatory.
const minRun = 16

// runMark is where a first member would be.
const runMark = '#'

// sequence reads the members of a list or tuple.
func (d *Decoder) sequence(v *Value, depth int) {
	n := d.number()
	if d.err == nil && d.pos < len(d.data) && d.data[d.pos] == runMark {
		d.run(v, n, depth)
		return
	}
	d.items(v, n, depth)
	if d.err == nil && isRun(v.Items) {
		d.Fail("members of one type that are not packed")
	}
}

// run reads a run of n members and keeps it as it is.
func (d *Decoder) run(v *Value, n, depth int) {
	start := d.pos
	d.take(1)
	if n < minRun || depth >= MaxDepth {
		d.Fail("a run that is too short or too deep")
	}
	d.spend(n)
	code := byte(d.tag())
	ok := false
	switch code {
	case 'b', 'h', 'i', 'q':
		ok = isNarrowest(widthOf(code), d.take(n*widthOf(code)))
	case 'd':
		ok = hasOneNaN(d.take(8 * n))
	case '?':
		ok = !slices.ContainsFunc(d.take(n), func(b byte) bool { return b > 1 })
	case 's':
		text := d.take(d.number())
		ok = bytes.Count(text, []byte{0}) == n-1 && isText(text)
	}
	if !ok {
		d.Fail("not a run in canonical form")
	}
	if d.err == nil {
		v.packed, v.Atom = n, d.data[start:d.pos:d.pos]
	}
}

// widthOf returns the number of bytes of an integer in a run.
func widthOf(code byte) int {
	switch code {
	case 'b':
		return 1
	case 'h':
		return 2
	case 'i':
		return 4
	}
	return 8
}

// isNarrowest reports whether integers in a run need their width: one of them
// does not fit into half of it.
func isNarrowest(width int, data []byte) bool {
	if width == 1 {
		return true
	}
	for ; len(data) >= width; data = data[width:] {
		var n int64
		for _, b := range data[:width] {
			n = n<<8 | int64(b)
		}
		unused := 64 - 8*width
		n = n << unused >> unused // with its sign
		if half := 64 - 4*width; n != n<<half>>half {
			return true
		}
	}
	return false
}

// hasOneNaN reports whether each float is a number or the NaN that crosses.
func hasOneNaN(data []byte) bool {
	for i := 0; i+8 <= len(data); i += 8 {
		bits := binary.BigEndian.Uint64(data[i:])
		if math.IsNaN(math.Float64frombits(bits)) && bits != canonicalNaN {
			return false
		}
	}
	return true
}

// isRun reports whether members that were written one by one make a run.
func isRun(items []Value) bool {
	if len(items) < minRun {
		return false
	}
	is := runMember(items[0].Kind)
	return is != nil && !slices.ContainsFunc(items, func(it Value) bool { return !is(it) })
}

// runMember returns whether a value can be in a run with a value of kind k; nil
// means that there are no runs of that kind.
func runMember(k Kind) func(Value) bool {
	switch k {
	case KindInt:
		return func(v Value) bool {
			if v.Kind != KindInt || len(v.Atom) > 17 {
				return false
			}
			_, err := strconv.ParseInt(string(v.Atom), 16, 64)
			return err == nil
		}
	case KindTrue, KindFalse:
		return func(v Value) bool { return v.Kind == KindTrue || v.Kind == KindFalse }
	case KindFloat:
		return func(v Value) bool { return v.Kind == KindFloat }
	case KindString:
		return func(v Value) bool { return v.Kind == KindString && bytes.IndexByte(v.Atom, 0) < 0 }
	}
	return nil
}
