package docker

import (
	"errors"
	"fmt"
	"io"
	"time"

	"securebench/internal/sandbox"
)

// pump passes the output of a container on to the caller's writers, up to a
// number of bytes. What comes after is read and thrown away, so that the
// container can be killed in peace.
type pump struct {
	in             demux
	stdout, stderr io.Writer
	left           int64

	// Read them after done is closed.
	stdoutBytes, stderrBytes int64

	overflow chan struct{} // gets a token when there is too much
	failed   chan error    // gets an error of a writer, or of the stream
	done     chan struct{} // closed at the end
}

func newPump(r io.Reader, s sandbox.Streams, limit int64) *pump {
	p := &pump{in: demux{r: r}, stdout: s.Stdout, stderr: s.Stderr, left: limit,
		overflow: make(chan struct{}, 1), failed: make(chan error, 1), done: make(chan struct{})}
	if p.stdout == nil {
		p.stdout = io.Discard
	}
	if p.stderr == nil {
		p.stderr = io.Discard
	}
	return p
}

func (p *pump) copy() {
	defer close(p.done)
	buf := make([]byte, 32<<10)
	passing := true
	for {
		stream, n, err := p.in.read(buf)
		if passing && n > 0 {
			passing = p.pass(stream, buf[:n])
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			p.fail(fmt.Errorf("reading the output of a container: %w", err))
			return
		}
	}
}

// leaveTimeout is how long a writer of the caller may still be in a call when
// Run returns.
const leaveTimeout = time.Second

// leave waits until the pump uses the caller's writers no more. Only a writer
// that blocks keeps it.
func (p *pump) leave() {
	t := time.NewTimer(leaveTimeout)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
}

// pass writes b to its writer and reports whether to go on.
func (p *pump) pass(stream byte, b []byte) bool {
	whole := int64(len(b)) <= p.left
	if !whole {
		b = b[:p.left]
	}
	p.left -= int64(len(b))
	w, count := p.stdout, &p.stdoutBytes
	if stream == streamStderr {
		w, count = p.stderr, &p.stderrBytes
	}
	if len(b) > 0 {
		n, err := w.Write(b)
		*count += int64(n)
		if err != nil {
			p.fail(fmt.Errorf("writing the output of a container: %w", err))
			return false
		}
	}
	if !whole {
		p.overflow <- struct{}{}
	}
	return whole
}

// fail keeps the first error.
func (p *pump) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}
