package onecommit

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/sha1" // git's files end in a SHA-1
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
)

// pack returns the objects as a pack file and its index (version 2; see
// gitformat-pack(5)). No object is stored as a difference.
func (r *Repository) pack() (pack, index []byte, err error) {
	ids := slices.SortedFunc(maps.Keys(r.objects), func(a, b ID) int { return bytes.Compare(a[:], b[:]) })
	pack = append(pack, "PACK\x00\x00\x00\x02"...)
	pack = number(pack, len(ids))
	offsets, sums := make([]int, len(ids)), make([]uint32, len(ids))
	for i, id := range ids {
		offsets[i] = len(pack)
		if pack, err = appendObject(pack, r.objects[id]); err != nil {
			return nil, nil, err
		}
		sums[i] = crc32.ChecksumIEEE(pack[offsets[i]:])
	}
	pack = sum(pack)
	index = append(index, "\xfftOc\x00\x00\x00\x02"...)
	for first, n := 0, 0; first < 256; first++ {
		for n < len(ids) && int(ids[n][0]) <= first {
			n++
		}
		index = number(index, n)
	}
	for _, id := range ids {
		index = append(index, id[:]...)
	}
	for _, s := range sums {
		index = binary.BigEndian.AppendUint32(index, s)
	}
	for _, o := range offsets { // below 2 GiB: the objects together are
		index = number(index, o)
	}
	return pack, sum(append(index, pack[len(pack)-sha1.Size:]...)), nil
}

// appendObject appends an object: its type and size, then the content.
func appendObject(out []byte, o Object) ([]byte, error) {
	size := len(o.Data)
	first := byte(o.Kind)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		out = append(out, first|0x80)
		first = byte(size & 0x7f)
	}
	out = append(out, first)
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := w.Write(o.Data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return append(out, b.Bytes()...), nil
}

// index returns git's list of the files that are checked out (version 2; see
// gitformat-index(5)). It knows no times: git looks at each file once.
func (r *Repository) index() []byte {
	names := slices.SortedFunc(maps.Keys(r.files), cmp.Compare[string])
	out := number([]byte("DIRC\x00\x00\x00\x02"), len(names))
	for _, name := range names {
		f, start := r.files[name], len(out)
		out = append(out, make([]byte, 24)...) // times, device, inode
		out = number(out, f.mode)
		out = append(out, make([]byte, 12)...) // owner, size
		out = append(out, f.id[:]...)
		out = binary.BigEndian.AppendUint16(out, uint16(min(len(name), 0xfff)))
		out = append(out, name...)
		out = append(out, make([]byte, 8-(len(out)-start)%8)...)
	}
	return sum(out)
}

// number appends a number of four bytes.
func number(out []byte, n int) []byte { return binary.BigEndian.AppendUint32(out, uint32(n)) }

// sum appends the SHA-1 of what is before it.
func sum(out []byte) []byte {
	s := sha1.Sum(out) // git's files end in a SHA-1
	return append(out, s[:]...)
}
