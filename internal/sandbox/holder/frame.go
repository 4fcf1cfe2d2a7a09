package holder

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"securebench/internal/frame"
)

// maxPayload bounds the payload of a frame in bytes. Its kind is one more.
const (
	maxPayload = 64 << 10
	maxFrame   = 1 + maxPayload
)

// kind says what a frame is: its first byte.
type kind byte

const (
	kindRequest kind = 'Q'
	kindData    kind = 'D'
	kindEnd     kind = 'E'
)

// errProtocol is wrapped by the errors of what the other side must not send.
var errProtocol = errors.New("invalid message")

// bufferSize is how much is read and written at a time, except for what is larger: most
// messages are small, and each workspace has four buffers.
const bufferSize = 8 << 10

// frameWriter writes frames. They are sent by flush at the latest.
type frameWriter struct{ w *bufio.Writer }

func newFrameWriter(w io.Writer) *frameWriter {
	return &frameWriter{bufio.NewWriterSize(w, bufferSize)}
}

// write writes one frame; payload has at most maxPayload bytes.
func (f *frameWriter) write(k kind, payload []byte) error {
	return frame.Write(f.w, []byte{byte(k)}, payload)
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
		m := min(len(p)-n, maxPayload)
		if err := d.f.write(kindData, p[n:n+m]); err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// frameReader reads frames into one buffer, which grows with them.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, bufferSize)}
}

// next returns the next frame; its payload is valid until the next call. The
// error is io.EOF only where the stream ends between two frames.
func (f *frameReader) next() (kind, []byte, error) {
	content, err := frame.Read(f.r, f.buf, maxFrame)
	if err != nil {
		return 0, nil, err
	}
	f.buf = content
	if len(content) == 0 {
		return 0, nil, fmt.Errorf("a frame without a kind: %w", errProtocol)
	}
	k := kind(content[0])
	if k != kindRequest && k != kindData && k != kindEnd {
		return 0, nil, fmt.Errorf("kind %#x: %w", content[0], errProtocol)
	}
	return k, content[1:], nil
}

// dataReader reads data frames up to the end frame. Its Read returns io.EOF
// after an end frame, whose payload it keeps.
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
	case errors.Is(err, io.EOF):
		d.err = io.ErrUnexpectedEOF // the end frame is missing
	case err != nil:
		d.err = err
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
