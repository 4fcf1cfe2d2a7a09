package sandbox

import (
	"fmt"
	"io"
	"time"
)

// Delivery takes what a command writes also after the limit, and after an error of
// a writer, so that the command does not block before it is killed. It is not safe
// for concurrent use, except for its channels.
type Delivery struct {
	Stdout, Stderr *OutputStream

	left     int64
	dropping bool
	overflow chan struct{}
	failed   chan error
}

// OutputStream is one of the two outputs.
type OutputStream struct {
	to *Delivery
	w  io.Writer
	n  int64
}

// NewDelivery returns a delivery to the writers of s of at most limit bytes.
func NewDelivery(s Streams, limit int64) *Delivery {
	d := &Delivery{left: limit, overflow: make(chan struct{}, 1), failed: make(chan error, 1)}
	d.Stdout, d.Stderr = &OutputStream{to: d, w: s.Stdout}, &OutputStream{to: d, w: s.Stderr}
	return d
}

// Overflow gets a token when there is too much.
func (d *Delivery) Overflow() <-chan struct{} { return d.overflow }

// Failed gets the first error, of a writer or of [Delivery.Fail].
func (d *Delivery) Failed() <-chan error { return d.failed }

// Fail keeps the first error and delivers nothing more.
func (d *Delivery) Fail(err error) {
	d.Stop()
	select {
	case d.failed <- err:
	default:
	}
}

// Stop delivers nothing more.
func (d *Delivery) Stop() { d.dropping = true }

// Delivered is how many bytes the writers got.
func (d *Delivery) Delivered() (stdout, stderr int64) { return d.Stdout.n, d.Stderr.n }

// Write delivers what the limit allows. It never fails.
func (s *OutputStream) Write(b []byte) (int, error) {
	d, size := s.to, len(b)
	if d.dropping {
		return size, nil
	}
	whole := int64(size) <= d.left
	if !whole {
		b = b[:d.left]
	}
	d.left -= int64(len(b))
	if err := s.deliver(b); err != nil {
		d.Fail(fmt.Errorf("writing the output of a sandbox: %w", err))
		return size, nil
	}
	if !whole {
		d.Stop()
		d.overflow <- struct{}{}
	}
	return size, nil
}

func (s *OutputStream) deliver(b []byte) error {
	n, err := len(b), error(nil)
	if s.w != nil && n > 0 {
		n, err = s.w.Write(b)
	}
	s.n += int64(n)
	return err
}

// Outcome is that of a command whose output has ended. It is an error if a writer failed,
// and too much output may end a command before it can be killed.
func (d *Delivery) Outcome(end End, code int, took time.Duration) (Outcome, error) {
	select {
	case err := <-d.failed:
		return Outcome{}, err
	case <-d.overflow:
		if end == Exited {
			end, code = OutputLimit, ExitKilled
		}
	default:
	}
	stdout, stderr := d.Delivered()
	return Outcome{End: end, ExitCode: code, Duration: took, StdoutBytes: stdout, StderrBytes: stderr}, nil
}

// FeedInput copies the caller's reader (nil is empty) to a command's standard input,
// and ends that. The channel gets an error of the reader's.
func FeedInput(stdin io.Reader, to io.Writer, end func() error) <-chan error {
	failed := make(chan error, 1)
	if stdin == nil {
		_ = end() // the command has ended if this fails
		return failed
	}
	in := &Input{Reader: stdin}
	go func() {
		_, _ = io.Copy(to, in) // a write fails when the command does not read any more
		_ = end()
		if in.Err != nil {
			failed <- fmt.Errorf("reading the standard input: %w", in.Err)
		}
	}()
	return failed
}

// leaveTimeout is how long a writer of the caller may still be in a call when the
// caller is told that the sandbox has ended.
const leaveTimeout = time.Second

// LeaveWriters waits until the caller's writers are not used any more, which closes done,
// unless one of them blocks.
func LeaveWriters(done <-chan struct{}) {
	t := time.NewTimer(leaveTimeout)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}
