package docker

import (
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"

	"securebench/internal/sandbox"
)

// demultiplex copies a container's multiplexed output to its two streams until
// it ends. stdcopy takes an end inside a frame for a regular one; that would
// pass a cut-off output as whole, so frames and bytes are counted. (stdcopy
// also holds each frame in memory. The engine frames what it copies with a
// fixed buffer, so the container does not choose the size.)
func demultiplex(stdout, stderr io.Writer, in io.Reader) error {
	src := &countingReader{r: in}
	out, errs := &countingWriter{w: stdout}, &countingWriter{w: stderr}
	if _, err := stdcopy.StdCopy(out, errs, src); err != nil {
		return err
	}
	const header = 8 // bytes of a frame (Engine API, "Attach to a container")
	if src.n != out.n+errs.n+header*(out.writes+errs.writes) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// countingWriter counts bytes and writes; stdcopy makes one write per frame.
type countingWriter struct {
	w         io.Writer
	n, writes int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	c.writes++
	return c.w.Write(p)
}

// pump passes the output of a container to the caller's writers, up to a
// number of bytes in total. It keeps reading after that, and after an error of
// a writer, so that the container does not block before it is killed.
type pump struct {
	in             io.Reader
	stdout, stderr *stream
	left           int64
	dropping       bool // deliver nothing more

	overflow chan struct{} // gets a token when there is too much
	failed   chan error    // gets an error of a writer, or of the connection
	done     chan struct{} // closed at the end
}

// stream is one of a pump's two outputs.
type stream struct {
	pump *pump
	w    io.Writer
	n    int64 // bytes delivered; read it after done is closed
}

func newPump(r io.Reader, s sandbox.Streams, limit int64) *pump {
	p := &pump{in: r, left: limit,
		overflow: make(chan struct{}, 1), failed: make(chan error, 1), done: make(chan struct{})}
	p.stdout, p.stderr = &stream{pump: p, w: s.Stdout}, &stream{pump: p, w: s.Stderr}
	return p
}

func (p *pump) copy() {
	defer close(p.done)
	if err := demultiplex(p.stdout, p.stderr, p.in); err != nil {
		p.fail(fmt.Errorf("reading the output of a container: %w", err))
	}
}

// leaveTimeout is how long a writer of the caller may still be in a call when
// Run returns.
const leaveTimeout = time.Second

// leave waits until the pump has stopped using the caller's writers, unless one
// of them blocks.
func (p *pump) leave() {
	t := time.NewTimer(leaveTimeout)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
}

// Write delivers what the limit allows. It never fails, so that copying
// continues.
func (s *stream) Write(b []byte) (int, error) {
	p, size := s.pump, len(b)
	if p.dropping {
		return size, nil
	}
	whole := int64(size) <= p.left
	if !whole {
		b = b[:p.left]
	}
	p.left -= int64(len(b))
	if err := s.deliver(b); err != nil {
		p.fail(fmt.Errorf("writing the output of a container: %w", err))
		return size, nil
	}
	if !whole {
		p.dropping = true
		p.overflow <- struct{}{}
	}
	return size, nil
}

func (s *stream) deliver(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n := len(b)
	if s.w != nil {
		var err error
		if n, err = s.w.Write(b); err != nil {
			s.n += int64(n)
			return err
		}
	}
	s.n += int64(n)
	return nil
}

// fail keeps the first error and ends the delivery.
func (p *pump) fail(err error) {
	p.dropping = true
	select {
	case p.failed <- err:
	default:
	}
}
