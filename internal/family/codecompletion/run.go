package codecompletion

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
)

// A run stands for the members of a list or tuple that has at least minRun of
// them, all of one plain type: "#", a letter, and the members side by side. It
// makes long plain data cheap, here and in Python.
//
//	b h i q  integers of 1, 2, 4 or 8 bytes, big-endian; the fewest that hold all
//	d        floats of 8 bytes, big-endian
//	?        booleans of one byte
//	s        strings, joined by NUL, with the length of it all in front
//
// Members that fit no run are written one by one, and only those.

// minRun is the number of members from which a run is mandatory.
const minRun = 16

// runMark stands where a first member would.
const runMark = '#'

// sequence reads the members of a list or tuple.
func (d *decoder) sequence(v *value, depth int) {
	n := d.number()
	if d.err == nil && d.pos < len(d.data) && d.data[d.pos] == runMark {
		d.run(v, n, depth)
		return
	}
	d.items(v, n, depth)
	if d.err == nil && isRun(v.items) {
		d.fail("members of one type that are no run")
	}
}

// run reads a run of n members. They stay together: nobody here looks at one.
func (d *decoder) run(v *value, n, depth int) {
	start := d.pos
	d.take(1)
	if n < minRun || depth >= maxDepth {
		d.fail("a run that is too short or too deep")
	}
	d.spend(n)
	code := byte(d.tag())
	ok := false
	switch code {
	case 'b', 'h', 'i', 'q':
		ok = isNarrowest(code, d.take(n*widthOf(code)))
	case 'd':
		ok = hasOneNaN(d.take(8 * n))
	case '?':
		ok = !slices.ContainsFunc(d.take(n), func(b byte) bool { return b > 1 })
	case 's':
		text := d.take(d.number())
		ok = bytes.Count(text, []byte{0}) == n-1 && isText(text)
	}
	if !ok {
		d.fail("not a run in canonical form")
	}
	if d.err == nil {
		v.packed, v.atom = n, d.data[start:d.pos:d.pos]
	}
}

// widthOf is the number of bytes of an integer in a run.
func widthOf(code byte) int {
	return map[byte]int{'b': 1, 'h': 2, 'i': 4, 'q': 8}[code]
}

// isNarrowest reports whether integers of a run need its width.
func isNarrowest(code byte, data []byte) bool {
	switch code {
	case 'h':
		for i := 0; i+2 <= len(data); i += 2 {
			if n := int16(binary.BigEndian.Uint16(data[i:])); n != int16(int8(n)) {
				return true
			}
		}
	case 'i':
		for i := 0; i+4 <= len(data); i += 4 {
			if n := int32(binary.BigEndian.Uint32(data[i:])); n != int32(int16(n)) {
				return true
			}
		}
	case 'q':
		for i := 0; i+8 <= len(data); i += 8 {
			if n := int64(binary.BigEndian.Uint64(data[i:])); n != int64(int32(n)) {
				return true
			}
		}
	}
	return code == 'b'
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
func isRun(items []value) bool {
	if len(items) < minRun {
		return false
	}
	is := runMember(items[0].kind)
	return is != nil && !slices.ContainsFunc(items, func(it value) bool { return !is(it) })
}

// runMember tells which values a run can hold beside one of a kind; it is nil
// for a kind of which there are no runs.
func runMember(k kind) func(value) bool {
	switch k {
	case kindInt:
		return func(v value) bool {
			if v.kind != kindInt || len(v.atom) > 17 {
				return false
			}
			_, err := strconv.ParseInt(string(v.atom), 16, 64)
			return err == nil
		}
	case kindTrue, kindFalse:
		return func(v value) bool { return v.kind == kindTrue || v.kind == kindFalse }
	case kindFloat:
		return func(v value) bool { return v.kind == kindFloat }
	case kindString:
		return func(v value) bool { return v.kind == kindString && bytes.IndexByte(v.atom, 0) < 0 }
	}
	return nil
}
