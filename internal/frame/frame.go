// Package frame carries byte strings over a stream. A frame is its length, as
// four bytes in big-endian order, and that many bytes.
//
// It is the only framing in this project: programs in sandboxes use it on
// their standard streams, in Go and in Python (see [Python]).
package frame

import (
	_ "embed" // the Python half
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Python is the source of a Python class, Channel, that reads and writes
// frames. It needs a global name MAX_FRAME, the limit in bytes.
//
//go:embed frame.py
var Python string

// HeaderSize is the number of bytes in front of a frame's content.
const HeaderSize = 4

// ErrInvalid is wrapped by the error of a stream that does not carry frames
// within the reader's limit.
var ErrInvalid = errors.New("invalid frame")

// firstRead bounds what is allocated for a frame before any of it has arrived.
const firstRead = 64 << 10

// Append appends a frame to b. Its content is the parts, one after the other.
func Append(b []byte, parts ...[]byte) []byte {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// Read reads a frame of at most limit bytes into buf, which grows with the
// bytes received, not with the announced length. The error is io.EOF only
// where the stream ends between two frames; a stream that ends inside one
// gives an error that wraps [ErrInvalid] and io.ErrUnexpectedEOF.
func Read(r io.Reader, buf []byte, limit int) ([]byte, error) {
	buf = slices.Grow(buf[:0], HeaderSize)[:HeaderSize]
	if _, err := io.ReadFull(r, buf); err != nil {
		if err == io.EOF {
			return nil, io.EOF
		}
		return nil, readError(err)
	}
	n, err := length(buf, limit)
	if err != nil {
		return nil, err
	}
	for buf = buf[:0]; len(buf) < n; {
		have := len(buf)
		buf = slices.Grow(buf, min(n-have, max(have, firstRead)))
		buf = buf[:min(n, cap(buf))]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			return nil, readError(err)
		}
	}
	return buf, nil
}

// readError marks the end of a stream in the middle of a frame, so that it is
// not mistaken for a regular one.
func readError(err error) error {
	switch {
	case err == io.EOF: //nolint:errorlint // a wrapped one says more
		return fmt.Errorf("%w: %w", ErrInvalid, io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return fmt.Errorf("reading a frame: %w", err)
}

// length reads the header of a frame.
func length(head []byte, limit int) (int, error) {
	n := binary.BigEndian.Uint32(head)
	if uint64(n) > uint64(limit) {
		return 0, fmt.Errorf("length %d is above %d: %w", n, limit, ErrInvalid)
	}
	return int(n), nil
}

// Cut splits the first frame off data. ok is false if the frame is incomplete.
func Cut(data []byte, limit int) (content, rest []byte, ok bool, err error) {
	if len(data) < HeaderSize {
		return nil, data, false, nil
	}
	n, err := length(data, limit)
	if err != nil || len(data)-HeaderSize < n {
		return nil, data, false, err
	}
	end := HeaderSize + n
	return data[HeaderSize:end:end], data[end:], true, nil
}
