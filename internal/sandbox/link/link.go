// Package link talks to a running sandbox in frames over its standard streams, and
// keeps sandboxes running between uses, where starting one costs more than what it
// is used for.
//
// The sandbox may be hostile: it can neither block this process nor make it
// hold more than one frame and the beginning of its standard error.
package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/bounded"
	"securebench/internal/frame"
	"securebench/internal/sandbox"
)

var (
	// ErrEnded says that the sandbox's process has ended.
	ErrEnded = errors.New("the process has ended")
	// ErrEarly says that a frame arrived before its request.
	ErrEarly = errors.New("a frame arrived before its request")
)

// MaxStderr is how much of standard error is kept at most, in bytes.
const MaxStderr = 64 << 10

// killLimit bounds the wait for the end of a sandbox that was killed.
const killLimit = 2 * time.Minute

// Options describe a link.
type Options struct {
	Program  []byte // the first frame that the sandbox gets
	MaxFrame int    // the size of a frame from the sandbox, in bytes
	// Stderr is how many bytes of standard error are kept, at most 64 KiB. The
	// rest is dropped and counted, so a sandbox that prints a lot neither fails
	// nor waits.
	Stderr int64
}

// Link is a running sandbox. One goroutine at a time may use it.
type Link struct {
	box    sandbox.Box
	cancel context.CancelCauseFunc
	limit  int         // of a frame
	out    chan []byte // frames on their way to the sandbox
	frames chan []byte // frames from the sandbox; closed at the end of its stream
	stderr bounded.Head
	wait   sync.WaitGroup

	ended   chan struct{} // closed when the sandbox has ended
	outcome sandbox.Outcome
	runErr  error // of the engine; valid after ended
	readErr error // why frames was closed; valid after that
}

// Start makes a sandbox within ctx and runs its command until Close or until
// life ends.
func Start(ctx, life context.Context, engine sandbox.Engine, spec sandbox.Spec, o Options) (*Link, error) {
	box, err := engine.Open(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("opening the %s sandbox: %w", spec.Labels.Role, err)
	}
	ctx, cancel := context.WithCancelCause(life)
	l := &Link{
		box: box, cancel: cancel, limit: o.MaxFrame,
		out: make(chan []byte), frames: make(chan []byte),
		stderr: bounded.Head{Max: int(min(o.Stderr, MaxStderr))},
		ended:  make(chan struct{}),
	}
	stdin, feed := io.Pipe()
	input := io.MultiReader(bytes.NewReader(frame.Append(nil, o.Program)), stdin)
	stdout, drain := io.Pipe()
	// An engine that still delivers output when the sandbox is to end must not
	// wait for a reader here.
	context.AfterFunc(ctx, func() {
		feed.CloseWithError(ErrEnded)
		stdout.CloseWithError(ErrEnded)
	})
	l.wait.Go(func() {
		l.outcome, l.runErr = box.Run(ctx, sandbox.Streams{Stdin: input, Stdout: drain, Stderr: &l.stderr})
		close(l.ended)
		drain.Close()
		stdin.CloseWithError(ErrEnded)
	})
	l.wait.Go(func() { l.write(feed) })
	l.wait.Go(func() { l.read(ctx, stdout) })
	return l, nil
}

// write passes frames on until the sandbox has ended. A sandbox that does not
// read holds up only this goroutine.
func (l *Link) write(feed *io.PipeWriter) {
	defer feed.Close()
	for {
		select {
		case b, open := <-l.out:
			if !open {
				return
			}
			if _, err := feed.Write(b); err != nil {
				return
			}
		case <-l.ended:
			return
		}
	}
}

// read delivers frames one at a time, so that a sandbox that floods waits. What
// arrived before the sandbox ended is still delivered after its end.
func (l *Link) read(ctx context.Context, stdout *io.PipeReader) {
	defer close(l.frames)
	for {
		content, err := frame.Read(stdout, nil, l.limit)
		if err == nil {
			select {
			case l.frames <- content:
				continue
			case <-ctx.Done():
				err = ErrEnded
			}
		}
		l.readErr = err
		stdout.CloseWithError(err)
		return
	}
}

// Send passes one frame to the sandbox. It fails with [ErrEarly] if a frame
// has arrived already, unrequested.
func (l *Link) Send(ctx context.Context, content []byte) error {
	select {
	case _, open := <-l.frames:
		if open {
			return ErrEarly
		}
		return l.endOfFrames()
	default:
	}
	select {
	case l.out <- frame.Append(make([]byte, 0, frame.HeaderSize+len(content)), content):
		return nil
	case <-l.ended:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Receive waits for the next frame. The error is [ErrEnded] at the end of the
// stream and wraps [frame.ErrInvalid] if the stream carries no frames.
func (l *Link) Receive(ctx context.Context) ([]byte, error) {
	content, open, err := attended.Await(ctx, l.frames)
	if err == nil && !open {
		err = l.endOfFrames()
	}
	return content, err
}

// endOfFrames distinguishes the end of the stream from a broken one.
func (l *Link) endOfFrames() error {
	if errors.Is(l.readErr, frame.ErrInvalid) {
		return l.readErr
	}
	return ErrEnded
}

// Alive reports whether the sandbox still runs.
func (l *Link) Alive() bool {
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// Outcome waits a moment for the sandbox to end on its own and returns how it
// did. It is not ok while the sandbox still runs. An error is the engine's,
// unless the sandbox was ended for what it wrote.
func (l *Link) Outcome(ctx context.Context, patience time.Duration) (o sandbox.Outcome, ok bool, err error) {
	timer := attended.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	if l.Alive() {
		return o, false, nil
	}
	if errors.Is(l.runErr, frame.ErrInvalid) {
		return sandbox.Outcome{End: sandbox.Exited}, true, nil
	}
	return l.outcome, true, l.runErr
}

// errOverdue is the cause of the end of an overdue sandbox.
var errOverdue = fmt.Errorf("ending a sandbox: %w", sandbox.ErrOverdue)

// KillOverdue ends a sandbox that did not answer in time. An error is the
// engine's; it wraps [sandbox.ErrDisturbed] if that was not the doing of what
// runs in the sandbox.
func (l *Link) KillOverdue(ctx context.Context) error {
	_, _, err := l.End(ctx, 0)
	return err
}

// End waits for the sandbox to end on its own and kills it after that. The
// outcome is not ok if it was killed. An error is the engine's, as
// [Link.Outcome]'s is: whoever reads that the stream of a sandbox has ended does
// not know yet whether something outside ended it, and a busy engine takes its
// time to say so.
func (l *Link) End(ctx context.Context, patience time.Duration) (o sandbox.Outcome, ok bool, err error) {
	ctx = context.WithoutCancel(ctx)
	if patience > 0 {
		if o, ok, err = l.Outcome(ctx, patience); ok {
			return o, true, err
		}
	}
	l.cancel(errOverdue)
	o, ok, err = l.Outcome(ctx, killLimit)
	switch {
	case !ok:
		return o, false, fmt.Errorf("the engine has not ended a sandbox for %v", killLimit)
	case errors.Is(err, sandbox.ErrDisturbed):
		return o, false, err
	case errors.Is(err, errOverdue), errors.Is(err, ErrEnded): // its streams have ended as well
		return sandbox.Outcome{}, false, nil
	}
	return o, true, err
}

// CloseInput ends the sandbox's standard input. Nothing can be sent afterwards.
func (l *Link) CloseInput() { close(l.out) }

// Stderr returns the kept beginning of standard error and how many bytes were
// dropped.
func (l *Link) Stderr() (kept []byte, dropped int64) { return l.stderr.Read() }

// Close kills and removes the sandbox and waits for everything that served it.
func (l *Link) Close(ctx context.Context) error {
	l.cancel(ErrEnded)
	err := l.box.Close(ctx)
	l.wait.Wait()
	if err != nil {
		return fmt.Errorf("closing a sandbox: %w", err)
	}
	return nil
}
