package holder

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxFrame bounds the payload of a frame in bytes.
const maxFrame = 64 << 10

const headerSize = 5

// kind says what a frame is.
type kind byte

const (
	kindRequest kind = 'Q'
	kindData    kind = 'D'
	kindEnd     kind = 'E'
)

// errProtocol is wrapped by the error for anything that the other side may not send.
var errProtocol = errors.New("invalid frame")

// frameWriter writes frames. Nothing is sent before flush.
type frameWriter struct{ w *bufio.Writer }

func newFrameWriter(w io.Writer) *frameWriter {
	return &frameWriter{bufio.NewWriterSize(w, maxFrame+headerSize)}
}

// write writes one frame; payload is at most maxFrame long.
func (f *frameWriter) write(k kind, payload []byte) error {
	var h [headerSize]byte
	h[0] = byte(k)
	binary.BigEndian.PutUint32(h[1:], uint32(len(payload)))
	if _, err := f.w.Write(h[:]); err != nil {
		return fmt.Errorf("writing a frame: %w", err)
	}
	if _, err := f.w.Write(payload); err != nil {
		return fmt.Errorf("writing a frame: %w", err)
	}
	return nil
}

func (f *frameWriter) flush() error {
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("writing a frame: %w", err)
	}
	return nil
}

// dataWriter turns what is written to it into data frames.
type dataWriter struct{ f *frameWriter }

func (d dataWriter) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		m := min(len(p)-n, maxFrame)
		if err := d.f.write(kindData, p[n:n+m]); err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// frameReader reads frames into one buffer.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, maxFrame+headerSize), buf: make([]byte, maxFrame)}
}

// next returns the next frame; its payload is valid until the next call. The
// error is io.EOF only where a frame could have begun.
func (f *frameReader) next() (kind, []byte, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(f.r, h[:]); err != nil {
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, nil, io.EOF
		}
		return 0, nil, fmt.Errorf("reading a frame: %w", err)
	}
	k, n := kind(h[0]), binary.BigEndian.Uint32(h[1:])
	if k != kindRequest && k != kindData && k != kindEnd {
		return 0, nil, fmt.Errorf("kind %#x: %w", h[0], errProtocol)
	}
	if n > maxFrame {
		return 0, nil, fmt.Errorf("length %d is above %d: %w", n, maxFrame, errProtocol)
	}
	if _, err := io.ReadFull(f.r, f.buf[:n]); err != nil {
		return 0, nil, fmt.Errorf("reading a frame of %d bytes: %w", n, noEOF(err))
	}
	return k, f.buf[:n], nil
}

// noEOF turns an end of the stream inside a frame into an error that is not
// taken for a regular end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// dataReader reads data frames up to the end frame. Its Read returns io.EOF
// after an end frame, which it keeps.
type dataReader struct {
	f    *frameReader
	left []byte // of the current frame
	end  []byte // payload of the end frame, once seen
	done bool
	err  error // of the transport
}

func (d *dataReader) Read(p []byte) (int, error) {
	for len(d.left) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		if d.done {
			return 0, io.EOF
		}
		d.fill()
	}
	n := copy(p, d.left)
	d.left = d.left[n:]
	return n, nil
}

func (d *dataReader) fill() {
	k, payload, err := d.f.next()
	switch {
	case err != nil:
		d.err = noEOF(err)
	case k == kindData:
		d.left = payload
	case k == kindEnd:
		d.end, d.done = append([]byte(nil), payload...), true
	default:
		d.err = fmt.Errorf("a request within another: %w", errProtocol)
	}
}

// drain reads up to the end frame, so that the stream can be used for the next
// request.
func (d *dataReader) drain() error {
	_, err := io.Copy(io.Discard, d)
	return err
}
