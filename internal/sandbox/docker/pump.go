package docker

import (
	"fmt"
	"io"

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

// pump delivers the output of a container. It keeps reading whatever happens to that,
// so that the container does not block before it is killed.
type pump struct {
	*sandbox.Delivery
	in   io.Reader
	done chan struct{} // closed at the end
}

func newPump(r io.Reader, s sandbox.Streams, limit int64) *pump {
	return &pump{Delivery: sandbox.NewDelivery(s, limit), in: r, done: make(chan struct{})}
}

func (p *pump) copy() {
	defer close(p.done)
	if err := demultiplex(p.Stdout, p.Stderr, p.in); err != nil {
		p.Fail(fmt.Errorf("reading the output of a container: %w", err))
	}
}
