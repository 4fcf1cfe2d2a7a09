package codecompletion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"securebench/internal/sandbox"
)

// settle is how long the end of a box is waited for after its stream ended.
const settle = 2 * time.Second

var (
	// errGone says that the other side of a link has ended.
	errGone = errors.New("the process has ended")
	// errEarly says that a frame was there before its request.
	errEarly = errors.New("a frame came before its request")
)

// link is a running box that speaks frames over its standard streams. One
// goroutine at a time may talk over it.
type link struct {
	box    sandbox.Box
	cancel context.CancelCauseFunc
	out    chan []byte // requests on their way to the box
	frames chan []byte // frames from the box; closed at the end of its stream
	stderr *beginning
	wait   sync.WaitGroup

	ended   chan struct{} // closed when the box has ended
	outcome sandbox.Outcome
	runErr  error // of the engine; valid after ended
	readErr error // why frames was closed; valid after that
}

// startLink opens a box, runs its command and hands it its program. Standard
// error is kept up to limit bytes, and no more than a cap; the rest is dropped
// and counted, so that a box that prints a lot neither fails nor waits.
// The box is made within ctx and lives until close or until life ends.
func startLink(ctx, life context.Context, engine sandbox.Engine, spec sandbox.Spec, program string, limit int64) (*link, error) {
	box, err := engine.Open(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("opening the %s sandbox: %w", spec.Labels.Role, err)
	}
	ctx, cancel := context.WithCancelCause(life)
	l := &link{
		box: box, cancel: cancel,
		out: make(chan []byte), frames: make(chan []byte),
		ended: make(chan struct{}),
	}
	l.stderr = &beginning{limit: min(limit, keptSize)}
	stdin, feed := io.Pipe()
	input := io.MultiReader(bytes.NewReader(appendFrame(nil, []byte(program))), stdin)
	stdout, drain := io.Pipe()
	// When the box is to end, an engine that still has something to deliver
	// must not wait for a reader here.
	context.AfterFunc(ctx, func() {
		feed.CloseWithError(errGone)
		stdout.CloseWithError(errGone)
	})
	l.wait.Go(func() {
		l.outcome, l.runErr = box.Run(ctx, sandbox.Streams{Stdin: input, Stdout: drain, Stderr: l.stderr})
		close(l.ended)
		drain.Close()
		stdin.CloseWithError(errGone)
	})
	l.wait.Go(func() { l.write(feed) })
	l.wait.Go(func() { l.read(ctx, stdout) })
	return l, nil
}

// write passes requests on until the box has ended. A box that does not read
// holds up this goroutine alone.
func (l *link) write(feed *io.PipeWriter) {
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

// read hands frames over one at a time, so that a box that floods waits. What
// came before the end of the box is handed over after it, too.
func (l *link) read(ctx context.Context, stdout *io.PipeReader) {
	defer close(l.frames)
	for {
		payload, err := readFrame(stdout)
		if err == nil {
			select {
			case l.frames <- payload:
				continue
			case <-ctx.Done():
				err = errGone
			}
		}
		l.readErr = err
		stdout.CloseWithError(err)
		return
	}
}

// send passes one frame to the box. It fails with errEarly when a frame lies
// there already: nobody has asked for one.
func (l *link) send(ctx context.Context, payload []byte) error {
	select {
	case _, open := <-l.frames:
		if open {
			return errEarly
		}
		return l.endOfFrames()
	default:
	}
	select {
	case l.out <- appendFrame(make([]byte, 0, len(payload)+4), payload):
		return nil
	case <-l.ended:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// receive waits for the next frame.
func (l *link) receive(ctx context.Context) ([]byte, error) {
	select {
	case payload, open := <-l.frames:
		if open {
			return payload, nil
		}
		return nil, l.endOfFrames()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// endOfFrames tells an end of the stream from a broken one.
func (l *link) endOfFrames() error {
	if errors.Is(l.readErr, errMalformed) {
		return l.readErr
	}
	return errGone
}

// alive reports whether the box still runs.
func (l *link) alive() bool {
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// end waits a moment for the box to end by itself and tells how it did. It
// is not ok while the box still runs. An error is the engine's: what an engine
// says of a box that was ended for what it wrote is not.
func (l *link) end(ctx context.Context, patience time.Duration) (o sandbox.Outcome, ok bool, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
		return o, false, nil
	case <-ctx.Done():
		return o, false, nil
	}
	if errors.Is(l.runErr, errMalformed) {
		return sandbox.Outcome{End: sandbox.Exited}, true, nil
	}
	return l.outcome, true, l.runErr
}

// errOverdue ends a box for the row's time.
var errOverdue = fmt.Errorf("ending a sandbox: %w", sandbox.ErrOverdue)

// overdue ends a box that did not answer within the row's time. It returns an
// error if that was not the doing of what runs in it.
func (l *link) overdue(ctx context.Context) error {
	l.cancel(errOverdue)
	_, _, err := l.end(context.WithoutCancel(ctx), startLimit)
	if errors.Is(err, sandbox.ErrDisturbed) {
		return err
	}
	return nil
}

// hangUp closes the box's standard input, on which it ends if it is still
// listening. Nothing can be sent afterwards.
func (l *link) hangUp() { close(l.out) }

// close kills and removes the box and waits for everything that served it.
func (l *link) close(ctx context.Context) error {
	l.cancel(errGone)
	err := l.box.Close(ctx)
	l.wait.Wait()
	if err != nil {
		return fmt.Errorf("closing a sandbox: %w", err)
	}
	return nil
}

// keptSize is how much of a box's standard error is kept at the most, in bytes.
const keptSize = 64 << 10

// beginning keeps the first bytes of a stream and counts the rest.
type beginning struct {
	limit int64

	mu      sync.Mutex
	kept    []byte
	dropped int64
}

// Write takes everything at once, whatever becomes of it.
func (t *beginning) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(p), int(t.limit)-len(t.kept))
	t.kept = append(t.kept, p[:n]...)
	t.dropped += int64(len(p) - n)
	return len(p), nil
}

// read returns what was kept and how many bytes were dropped.
func (t *beginning) read() ([]byte, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.kept...), t.dropped
}
