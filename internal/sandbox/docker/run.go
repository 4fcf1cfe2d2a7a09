package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
)

const (
	// firstSample and sampleEvery pace the sampling of the process count, so
	// that a short command costs no sample and a long one few. The last sample,
	// of a command that is out of time, may take longer: it decides the outcome.
	firstSample       = 500 * time.Millisecond
	sampleEvery       = 2 * time.Second
	sampleTimeout     = 3 * time.Second // a busy engine is slow to answer
	lastSampleTimeout = 5 * time.Second
	// endTimeout bounds the wait for the engine to report the end of a
	// container that was killed, and for the rest of its output.
	endTimeout = 15 * time.Second
)

// run is the state of one Run. Its goroutines are the output pump, which ends
// with the attached stream; the waiter and the sampler of the root, which end
// with their context; and the copier of standard input, which ends with the caller's reader.
type run struct {
	box    *box
	output *pump
	exit   chan exit
	failed <-chan error // of the caller's reader
	began  time.Time
	pids   bool          // the limit on processes was seen reached
	full   chan struct{} // closed when the root is too large
	watch  sync.WaitGroup
}

// exit is the engine's report of a container's end.
type exit struct {
	code int
	err  error
}

// Run starts the command and waits for its end.
//
// The writers of s are called from one goroutine at a time and must not block
// forever; an error of theirs kills the box and is returned. The reader of s is
// read as fast as the command consumes it. A Read that is blocked when the
// command ends is left to the caller, who ends it by closing what it reads from.
func (b *box) Run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	if b.ran.Swap(true) {
		return sandbox.Outcome{}, errors.New("running a sandbox: it has already run")
	}
	if s.Stdin != nil && !b.stdin {
		return sandbox.Outcome{}, errors.New("running a sandbox: it has no standard input")
	}
	out, err := b.run(ctx, s)
	if err != nil {
		if b.closed.Load() {
			err = os.ErrClosed
		}
		return sandbox.Outcome{}, fmt.Errorf("running a sandbox: %w", err)
	}
	b.ended.Store(true)
	return out, nil
}

func (b *box) run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	if ctx.Err() != nil {
		return sandbox.Outcome{}, context.Cause(ctx)
	}
	conn, err := b.engine.attach(ctx, b.name, b.stdin)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	wctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{box: b, output: newPump(conn.Reader, s, b.limits.Output),
		exit: make(chan exit, 1), full: make(chan struct{})}
	stop := context.AfterFunc(ctx, cancel) // do not wait for the engine to register it
	waited := r.wait(wctx)
	stop()
	defer func() { conn.Close(); cancel(); <-waited; r.watch.Wait() }()
	if err := b.engine.start(ctx, b.name); err != nil {
		if out, ok := startFailure(err, b.argv[0], s.Stderr); ok && !b.init {
			return out, nil
		}
		// It may run all the same.
		return sandbox.Outcome{}, errors.Join(err, b.engine.conn.removeContainer(ctx, b.name))
	}
	r.began = time.Now()
	if b.writable {
		r.watch.Go(func() { r.watchRoot(wctx) })
	}
	go r.output.copy()
	defer func() { conn.Close(); sandbox.LeaveWriters(r.output.done) }()
	if b.stdin {
		r.failed = sandbox.FeedInput(s.Stdin, conn.Conn, conn.CloseWrite)
	}
	return r.supervise(ctx)
}

// attach connects to the streams of a container that has not started.
func (e *Engine) attach(ctx context.Context, name string, stdin bool) (client.HijackedResponse, error) {
	cctx, cancel := attended.WithTimeoutCause(ctx, callTimeout, errNoAnswer) // of the call, not of the streams
	defer cancel()
	res, err := e.conn.API.ContainerAttach(cctx, name, client.ContainerAttachOptions{
		Stream: true, Stdin: stdin, Stdout: true, Stderr: true})
	if err != nil {
		return client.HijackedResponse{}, fmt.Errorf("attaching to a container: %w", err)
	}
	return res.HijackedResponse, nil
}

func (e *Engine) start(ctx context.Context, name string) error {
	cctx, cancel := creating(ctx)
	defer cancel()
	if _, err := e.conn.API.ContainerStart(cctx, name, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("starting a container: %w", err)
	}
	return nil
}

// wait subscribes to the container's end. It returns after the engine has
// registered that, so that no end is missed. The channel is closed when wait's
// goroutine has ended.
func (r *run) wait(ctx context.Context) <-chan struct{} {
	res := r.box.engine.conn.API.ContainerWait(ctx, r.box.name,
		client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case w := <-res.Result:
			x := exit{code: int(w.StatusCode)}
			if w.Error != nil && w.Error.Message != "" {
				x.err = fmt.Errorf("waiting for a container: the engine reports %q", w.Error.Message)
			}
			r.exit <- x
		case err := <-res.Error:
			r.exit <- exit{err: fmt.Errorf("waiting for a container: %w", err)}
		}
	}()
	return done
}

// supervise waits until the command ends or has to be ended.
func (r *run) supervise(ctx context.Context) (sandbox.Outcome, error) {
	deadline := attended.NewTimer(r.box.limits.Timeout)
	defer deadline.Stop()
	sample := time.NewTimer(firstSample)
	defer sample.Stop()
	for {
		select {
		case x := <-r.exit:
			return r.ended(ctx, x)
		case <-deadline.C:
			if x, ok := attended.Known(r.exit); ok {
				return r.ended(ctx, x)
			}
			return r.timedOut(ctx)
		case <-r.output.Overflow():
			return r.stop(ctx, sandbox.OutputLimit, sandbox.ExitKilled)
		case <-r.full:
			return r.stop(ctx, sandbox.DiskLimit, sandbox.ExitKilled)
		case err := <-r.output.Failed():
			return sandbox.Outcome{}, r.broken(ctx, err)
		case err := <-r.failed:
			return sandbox.Outcome{}, r.broken(ctx, err)
		case <-ctx.Done():
			return sandbox.Outcome{}, r.canceled(ctx)
		case <-sample.C:
			r.sample(ctx, sampleTimeout)
			sample.Reset(min(sampleEvery, 2*time.Since(r.began)))
		}
	}
}

// timedOut kills the container because its time is over.
func (r *run) timedOut(ctx context.Context) (sandbox.Outcome, error) {
	r.sample(ctx, lastSampleTimeout)
	end := sandbox.TimedOut
	if r.pids {
		end = sandbox.PidsLimit
	}
	return r.stop(ctx, end, sandbox.ExitTimedOut)
}

// stop kills the container for a limit.
func (r *run) stop(ctx context.Context, end sandbox.End, code int) (sandbox.Outcome, error) {
	took := time.Since(r.began)
	err := r.killOverdue(ctx, code == sandbox.ExitTimedOut)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	return r.outcome(end, code, took)
}

// broken kills the box because a stream of the caller's failed. A caller whose
// context has ended closes its streams as well: then the context says why.
func (r *run) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return r.canceled(ctx)
	}
	return errors.Join(err, r.kill(ctx))
}

// canceled kills the container because the caller's context ended, and returns
// the cause.
func (r *run) canceled(ctx context.Context) error {
	cause := context.Cause(ctx)
	return errors.Join(cause, r.killOverdue(context.WithoutCancel(ctx), errors.Is(cause, sandbox.ErrOverdue)))
}

// killOverdue kills the container. If that is because the command is out of time,
// the error says whether something outside held it up.
func (r *run) killOverdue(ctx context.Context, overdue bool) error {
	if !overdue {
		return r.kill(ctx)
	}
	paused, err := r.paused(ctx)
	if err := errors.Join(err, r.kill(ctx)); err != nil {
		return err
	}
	return r.disturbedMeanwhile(ctx, paused)
}

// kill kills the container and waits until it has ended. A container that
// cannot be killed is removed.
func (r *run) kill(ctx context.Context) error {
	cctx, cancel := cleanup(ctx)
	defer cancel()
	_, err := r.box.engine.conn.API.ContainerKill(cctx, r.box.name, client.ContainerKillOptions{Signal: "KILL"})
	// It may have ended on its own, or be gone.
	if err != nil && !cerrdefs.IsConflict(err) && !cerrdefs.IsNotFound(err) {
		return errors.Join(fmt.Errorf("killing a container: %w", err), r.remove(ctx))
	}
	t := time.NewTimer(endTimeout)
	defer t.Stop()
	select {
	case x := <-r.exit:
		if x.err != nil {
			return errors.Join(x.err, r.remove(ctx))
		}
		return nil
	case <-t.C:
		return errors.Join(errors.New("the engine does not report the end of a killed container"), r.remove(ctx))
	}
}

// remove ends a container whose state is unknown.
func (r *run) remove(ctx context.Context) error {
	return r.box.engine.conn.removeContainer(ctx, r.box.name)
}

// ended turns the end of the container into an outcome.
func (r *run) ended(ctx context.Context, x exit) (sandbox.Outcome, error) {
	noticed := time.Now()
	took := noticed.Sub(r.began)
	if x.err == nil && r.box.closed.Load() {
		x.err = os.ErrClosed
	}
	if x.err != nil {
		return sandbox.Outcome{}, errors.Join(x.err, r.remove(ctx))
	}
	out, err := r.outcome(sandbox.Exited, x.code, took)
	if err != nil || out.End != sandbox.Exited {
		return out, err
	}
	state, err := r.state(ctx)
	if err == nil {
		err = r.disturbedAtEnd(ctx, state, time.Since(noticed))
	}
	if err != nil {
		return sandbox.Outcome{}, errors.Join(err, r.remove(ctx))
	}
	out.Seen, err = r.limits(ctx, state)
	out.Seen = r.seeRoot(ctx, out.Seen)
	// The engine reports for the whole container. If its first process was
	// killed, memory was the reason; a shell that passes on a child's status
	// looks the same.
	if x.code == sandbox.ExitKilled && slices.Contains(out.Seen, sandbox.OutOfMemory) {
		out.End = sandbox.OutOfMemory
	}
	return out, err
}

// outcome waits for the rest of the output and assembles the result.
func (r *run) outcome(end sandbox.End, code int, took time.Duration) (sandbox.Outcome, error) {
	t := time.NewTimer(endTimeout)
	defer t.Stop()
	select {
	case <-r.output.done:
	case <-t.C:
		return sandbox.Outcome{}, errors.New("the output of an ended container does not end")
	}
	return r.output.Outcome(end, code, took)
}
