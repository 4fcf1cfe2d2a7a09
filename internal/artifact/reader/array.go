package reader

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/lazyregexp"
)

// maxValues is the number of numbers of an array.
const maxValues = 4_000_000

// npyHeader is how NumPy writes the header of an array: a literal of Python, which is
// never evaluated.
var npyHeader = lazyregexp.New(`^\{'descr': '([<>|=]?)([a-zA-Z?])([0-9]*)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), ?\} *\n$`)

// readArray reads an array of numbers in NumPy's format. An array of objects is a pickle,
// which runs what its author wants, and is refused as all that are not numbers.
func readArray(data []byte, f *artifact.File) error {
	header, body, err := npyParts(data)
	if err != nil {
		return err
	}
	if bytes.Contains(header, []byte("'descr': '|O'")) || bytes.Contains(header, []byte("'descr': 'O'")) {
		return refuse("is an array of objects, which is never read")
	}
	parts := npyHeader.FindSubmatch(header)
	if parts == nil {
		return refuse("is no array of numbers")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if string(parts[1]) == ">" {
		order = binary.BigEndian
	}
	width, value := npyValue(string(parts[2])+string(parts[3]), order)
	if value == nil {
		return refuse("is an array of %s%s, not of numbers", parts[2], parts[3])
	}
	a := &artifact.Array{Shape: []int{}}
	count := 1
	for _, part := range strings.Split(string(parts[5]), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil || n > maxValues || len(a.Shape) == 32 {
			return refuse("is an array of more than %d numbers", maxValues)
		}
		a.Shape = append(a.Shape, n)
		if count *= n; count > maxValues {
			return refuse("is an array of more than %d numbers", maxValues)
		}
	}
	if len(body) != count*width {
		return refuse("has %d bytes of numbers, and its shape %d", len(body), count*width)
	}
	a.Values = make([]float64, count)
	for i := range a.Values {
		a.Values[i] = value(body[i*width:])
	}
	if string(parts[4]) == "True" {
		a.Values = rowMajor(a.Values, a.Shape)
	}
	f.Array = a
	return nil
}

// npyParts returns the header and the numbers.
func npyParts(data []byte) (header, body []byte, err error) {
	if !bytes.HasPrefix(data, []byte("\x93NUMPY")) || len(data) < 12 {
		return nil, nil, refuse("does not begin as an array of NumPy")
	}
	at, length := 10, int(binary.LittleEndian.Uint16(data[8:]))
	switch {
	case data[6] == 2 || data[6] == 3:
		at, length = 12, int(binary.LittleEndian.Uint32(data[8:]))
	case data[6] != 1:
		return nil, nil, refuse("is of an unknown version of NumPy's format")
	}
	if length > 64<<10 || at+length > len(data) {
		return nil, nil, refuse("has a header that does not end")
	}
	return data[at : at+length], data[at+length:], nil
}

// npyValue returns the length of a number of a type and how it is read, nil if the type is
// none of numbers.
func npyValue(kind string, order binary.ByteOrder) (int, func([]byte) float64) {
	switch kind {
	case "f8":
		return 8, func(b []byte) float64 { return math.Float64frombits(order.Uint64(b)) }
	case "f4":
		return 4, func(b []byte) float64 { return float64(math.Float32frombits(order.Uint32(b))) }
	case "f2":
		return 2, func(b []byte) float64 { return half(order.Uint16(b)) }
	case "i8":
		return 8, func(b []byte) float64 { return float64(int64(order.Uint64(b))) }
	case "i4":
		return 4, func(b []byte) float64 { return float64(int32(order.Uint32(b))) }
	case "i2":
		return 2, func(b []byte) float64 { return float64(int16(order.Uint16(b))) }
	case "i1":
		return 1, func(b []byte) float64 { return float64(int8(b[0])) }
	case "u8":
		return 8, func(b []byte) float64 { return float64(order.Uint64(b)) }
	case "u4":
		return 4, func(b []byte) float64 { return float64(order.Uint32(b)) }
	case "u2":
		return 2, func(b []byte) float64 { return float64(order.Uint16(b)) }
	case "u1", "b1", "?":
		return 1, func(b []byte) float64 { return float64(b[0]) }
	}
	return 0, nil
}

// half returns the value of a number of 16 bits.
func half(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10&0x1f), float64(bits&0x3ff)
	if bits>>15 == 1 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		if fraction == 0 {
			return math.Inf(int(sign))
		}
		return math.NaN()
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// rowMajor returns the numbers of an array in the order of rows that came in the order of
// columns.
func rowMajor(values []float64, shape []int) []float64 {
	out := make([]float64, len(values))
	index := make([]int, len(shape))
	strides := make([]int, len(shape))
	for i, stride := 0, 1; i < len(shape); i++ {
		strides[i] = stride
		stride *= shape[i]
	}
	for i := range out {
		at := 0
		for d, n := range index {
			at += n * strides[d]
		}
		out[i] = values[at]
		for d := len(index) - 1; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
	return out
}
