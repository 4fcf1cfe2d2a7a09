package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/native/process"
)

const (
	// endTimeout bounds the wait for the end of processes that were killed, and
	// for the rest of the output.
	endTimeout = 15 * time.Second
	// killPause is how long the kernel may take to end a container after its
	// first process was killed, before every process is killed by itself.
	killPause = 500 * time.Millisecond
	// fullEvery paces the looks at a root that can be written: one that is full
	// ends its box.
	fullEvery = 250 * time.Millisecond
)

// run is the state of one Run.
type run struct {
	box     *box
	output  *pipedOutput
	process *process.Process
	failed  <-chan error // of the caller's reader
	killed  sync.Once
}

// Run starts the command and waits for its end.
//
// The writers of s are called from one goroutine at a time and must not block
// forever; an error of theirs kills the box and is returned. The reader of s is
// read as fast as the command consumes it. A Read that is blocked when the
// command ends is left to the caller, who ends it by closing what it reads from.
func (b *box) Run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	stdin := b.spec.Stdin || b.spec.Init
	if s.Stdin != nil && !stdin {
		return sandbox.Outcome{}, errors.New("running a sandbox: it has no standard input")
	}
	if err := b.begin(); err != nil {
		return sandbox.Outcome{}, fmt.Errorf("running a sandbox: %w", err)
	}
	out, err := b.run(ctx, s, stdin)
	if b.finish() {
		err = os.ErrClosed
	}
	if err != nil {
		return sandbox.Outcome{}, fmt.Errorf("running a sandbox: %w", err)
	}
	return out, nil
}

// begin allows one Run.
func (b *box) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended != nil:
		return errors.New("it has already run")
	case b.phase != opened:
		return os.ErrClosed
	}
	b.phase, b.ended = running, make(chan struct{})
	return nil
}

// finish ends Run, and reports whether the box was closed meanwhile.
func (b *box) finish() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ended)
	if b.phase == running {
		b.phase = over
		return false
	}
	return true
}

func (b *box) run(ctx context.Context, s sandbox.Streams, stdin bool) (sandbox.Outcome, error) {
	if ctx.Err() != nil {
		return sandbox.Outcome{}, context.Cause(ctx)
	}
	null, err := b.emptyInput(stdin)
	if err != nil {
		return sandbox.Outcome{}, fmt.Errorf("opening an empty input: %w", err)
	}
	u := b.oci.User
	pipes, err := newPipes(stdin, null, b.engine.base()+u.UID, b.engine.base()+u.GID)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	defer pipes.Close()
	p, err := b.start(ctx, pipes)
	var not notStarted
	if errors.As(err, &not) {
		return sandbox.NotStarted(not.code, b.oci.Args[0], s.Stderr), nil
	}
	if err != nil {
		return sandbox.Outcome{}, err
	}
	b.mu.Lock()
	b.process = p
	b.mu.Unlock()
	r := &run{box: b, process: p, output: newOutput(s, pipes.Ours[1], pipes.Ours[2], b.limits.Output)}
	r.output.Start()
	defer r.output.Leave()
	if in := pipes.Ours[0]; in != nil {
		r.failed = sandbox.FeedInput(s.Stdin, in, in.Close)
	}
	return r.supervise(ctx)
}

// supervise waits until the command ends or has to be ended.
func (r *run) supervise(ctx context.Context) (sandbox.Outcome, error) {
	deadline := attended.NewTimer(r.box.limits.Timeout)
	defer deadline.Stop()
	var look <-chan time.Time
	if r.box.spec.WritableRoot {
		t := time.NewTicker(fullEvery)
		defer t.Stop()
		look = t.C
	}
	for {
		select {
		case x := <-r.process.Exit():
			return r.ended(x)
		case <-deadline.C:
			if x, ok := attended.Known(r.process.Exit()); ok {
				return r.ended(x)
			}
			return r.timedOut(ctx)
		case <-r.output.Overflow():
			return r.stop(ctx, sandbox.OutputLimit, sandbox.ExitKilled)
		case <-look:
			if mountns.Full(r.box.disks[0]) {
				return r.stop(ctx, sandbox.DiskLimit, sandbox.ExitKilled)
			}
		case err := <-r.output.Failed():
			return sandbox.Outcome{}, r.broken(ctx, err)
		case err := <-r.failed:
			return sandbox.Outcome{}, r.broken(ctx, err)
		case <-r.box.closing:
			return sandbox.Outcome{}, errors.Join(os.ErrClosed, r.kill(ctx))
		case <-ctx.Done():
			return sandbox.Outcome{}, r.canceled(ctx)
		}
	}
}

// timedOut kills the box because its time is over.
func (r *run) timedOut(ctx context.Context) (sandbox.Outcome, error) {
	err := r.box.disturbed()
	events, eventsErr := r.box.group.Events()
	if err = errors.Join(err, eventsErr); err != nil {
		return sandbox.Outcome{}, errors.Join(err, r.kill(ctx))
	}
	end := sandbox.TimedOut
	if events.PidsHits > 0 {
		end = sandbox.PidsLimit
	}
	return r.stop(ctx, end, sandbox.ExitTimedOut)
}

// stop kills the box for a limit.
func (r *run) stop(ctx context.Context, end sandbox.End, code int) (sandbox.Outcome, error) {
	took := time.Since(r.process.Began)
	if err := r.kill(ctx); err != nil {
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

// canceled kills the box because the caller's context ended, and returns the
// cause.
func (r *run) canceled(ctx context.Context) error {
	cause := context.Cause(ctx)
	var disturbed error
	if errors.Is(cause, sandbox.ErrOverdue) {
		disturbed = r.box.disturbed()
	}
	return errors.Join(cause, disturbed, r.kill(ctx))
}

// kill kills every process and waits until they have ended. The end of the first
// process is that of all: the kernel ends the others before.
func (r *run) kill(ctx context.Context) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	var errs []error
	r.killed.Do(func() {
		errs = append(errs, r.process.Signal(unix.SIGKILL), r.box.thawForKill(ctx))
		select {
		case <-r.process.Done():
		case <-time.After(killPause):
		}
		errs = append(errs, r.box.group.Kill(ctx))
	})
	select {
	case <-r.process.Done():
	case <-time.After(endTimeout):
		errs = append(errs, errors.New("the first process of a sandbox cannot be killed"))
	}
	return errors.Join(errs...)
}

// ended turns the end of the container into an outcome.
func (r *run) ended(x process.Exit) (sandbox.Outcome, error) {
	if x.Err != nil {
		return sandbox.Outcome{}, x.Err
	}
	out, err := r.outcome(sandbox.Exited, exitCode(x.Status), max(x.At.Sub(r.process.Began), 1))
	if err != nil || out.End != sandbox.Exited {
		return out, err
	}
	if out.Seen, err = r.seen(); err != nil {
		return sandbox.Outcome{}, err
	}
	memory := slices.Contains(out.Seen, sandbox.OutOfMemory)
	switch {
	case out.ExitCode == sandbox.ExitKilled && memory:
		// A shell that passes on a child's status looks the same, as with Docker.
		out.End = sandbox.OutOfMemory
	case x.Status.Signaled() && x.Status.Signal() == unix.SIGKILL && !x.Own && !r.box.spec.Tracing:
		// Nothing inside can kill the first process, except for the kernel for
		// what it asked for, and a debugger.
		return sandbox.Outcome{}, fmt.Errorf("%w: its first process was killed", sandbox.ErrDisturbed)
	}
	return out, nil
}

// exitCode is the exit code that a shell gives for a status.
func exitCode(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// seen lists the limits that the processes ran into.
func (r *run) seen() (seen []sandbox.End, err error) {
	events, err := r.box.group.Events()
	if err != nil {
		return nil, err
	}
	if events.OOMKills > 0 {
		seen = append(seen, sandbox.OutOfMemory)
	}
	if events.PidsHits > 0 {
		seen = append(seen, sandbox.PidsLimit)
	}
	if slices.ContainsFunc(r.box.disks, mountns.Full) {
		seen = append(seen, sandbox.DiskLimit)
	}
	return seen, nil
}

// outcome waits for the rest of the output and assembles the result.
func (r *run) outcome(end sandbox.End, code int, took time.Duration) (sandbox.Outcome, error) {
	if !r.output.Drain(endTimeout) {
		return sandbox.Outcome{}, errors.New("the output of an ended sandbox does not end")
	}
	return r.output.Outcome(end, code, took)
}

// disturbed returns the error of a box that something outside has stopped. Its
// first process cannot be stopped from inside, unless it can be debugged.
func (b *box) disturbed() error {
	p, err := b.started()
	if err != nil {
		return nil
	}
	if p.Stopped() && !b.spec.Tracing {
		return fmt.Errorf("%w: its first process is stopped", sandbox.ErrDisturbed)
	}
	b.freezing.Lock()
	defer b.freezing.Unlock()
	if frozen, err := b.group.Frozen(); err == nil && frozen && !b.frozen {
		return fmt.Errorf("%w: it is frozen", sandbox.ErrDisturbed)
	}
	return nil
}
