package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"securebench/internal/sandbox"
)

// Why a program has to end, besides the caller's own reasons.
var (
	errTimeout  = errors.New("timeout")
	errOverflow = errors.New("output limit exceeded")
	errFull     = errors.New("disk limit exceeded")
)

// patience is how long a program may run after it was asked to end.
const patience = 30 * time.Second

type box struct {
	engine *Engine
	spec   sandbox.Spec
	limits sandbox.Limits
	gate   gate
	// machine is nil before init runs.
	machine atomic.Pointer[machine]
	home    string // on this machine, "" without one
	root    string // on this machine, "" without a writable root
	begun   int64  // bytes of the files in the root at first
	ran     atomic.Bool
	ended   atomic.Bool
	once    sync.Once
	closed  chan struct{}
}

// Close asks a running program to end.
func (b *box) Close(context.Context) (err error) {
	b.once.Do(func() {
		close(b.closed)
		b.engine.count(-1)
		b.engine.use(b.spec.Mounts, -1)
		for _, dir := range []string{b.root, b.home} {
			if dir != "" {
				err = errors.Join(err, os.RemoveAll(dir))
			}
		}
	})
	return err
}

// Run runs the program.
func (b *box) Run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	if b.ran.Swap(true) {
		return sandbox.Outcome{}, errors.New("running a sandbox: it has already run")
	}
	if s.Stdin != nil && !b.spec.Stdin && !b.spec.Init {
		return sandbox.Outcome{}, errors.New("running a sandbox: it has no standard input")
	}
	out, err := b.run(ctx, s)
	if err != nil {
		return sandbox.Outcome{}, fmt.Errorf("running a sandbox: %w", err)
	}
	b.ended.Store(true)
	return out, nil
}

func (b *box) run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	select {
	case <-b.closed:
		return sandbox.Outcome{}, os.ErrClosed
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, b.limits.Timeout, errTimeout)
	defer stop()
	go func() { // ends with ctx
		select {
		case <-b.closed:
			cancel(os.ErrClosed)
		case <-ctx.Done():
		}
	}()
	if b.root != "" {
		go b.watchRoot(ctx, cancel)
	}
	c := &capture{left: b.limits.Output, cancel: cancel, ended: func() error { return context.Cause(ctx) }}
	c.wait = func() { b.gate.wait(ctx) }
	args := b.spec.Command
	if len(b.spec.Helper) > 0 {
		args = b.spec.Helper // a program of the engine's under the name of the first
	}
	p := b.process(args, b.spec.Env)
	p.Stdout, p.Stderr = &stream{c, s.Stdout, 0}, &stream{c, s.Stderr, 0}
	stdin := newFeed(ctx, s.Stdin)
	stdin.wait = c.wait
	p.Stdin = stdin
	began := time.Now()
	code, err := b.execute(ctx, p)
	stdin.close()
	if err != nil {
		return sandbox.Outcome{}, err
	}
	return b.outcome(ctx, p, code, time.Since(began))
}

// process is a process of the box without its streams.
func (b *box) process(args, env []string) *Process {
	p := &Process{Args: args, Env: env, Spec: b.spec, box: b, root: b.root, end: sandbox.Exited}
	if len(b.spec.Mounts) > 0 {
		p.Dir = folder(b.spec.Mounts[0])
	}
	return p
}

// execute calls the program and waits for it, but not forever.
func (b *box) execute(ctx context.Context, p *Process) (int, error) {
	var program Program
	if b.spec.Init {
		p.Args = []string{"sandbox-init"}
		program = b.init
	} else {
		program = b.engine.cfg.Programs[p.Args[0]]
	}
	if program == nil {
		_, _ = fmt.Fprintf(p.Stderr, "sandbox: command %q: not found\n", p.Args[0])
		return sandbox.ExitNotFound, nil
	}
	done := make(chan int, 1)
	go func() { done <- program(ctx, p) }()
	select {
	case code := <-done:
		return code, nil
	case <-ctx.Done():
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case code := <-done:
		return code, nil
	case <-t.C:
		return 0, fmt.Errorf("program %q ignores the end of its context", p.Args[0])
	}
}

// outcome assembles the result. What ended ctx wins over what the program
// returned.
func (b *box) outcome(ctx context.Context, p *Process, code int, took time.Duration) (sandbox.Outcome, error) {
	stdout, stderr := p.Stdout.(*stream), p.Stderr.(*stream)
	stdout.mu.Lock()
	defer stdout.mu.Unlock()
	out := sandbox.Outcome{End: sandbox.Exited, ExitCode: code, Duration: took,
		StdoutBytes: stdout.n, StderrBytes: stderr.n}
	switch cause := context.Cause(ctx); {
	case stdout.err != nil:
		return sandbox.Outcome{}, stdout.err
	case cause == nil:
		out.End, out.Seen = p.ending()
	case errors.Is(cause, errTimeout):
		out.End, out.ExitCode = sandbox.TimedOut, sandbox.ExitTimedOut
	case errors.Is(cause, errOverflow):
		out.End, out.ExitCode = sandbox.OutputLimit, sandbox.ExitKilled
	case errors.Is(cause, errFull):
		out.End, out.ExitCode = sandbox.DiskLimit, sandbox.ExitKilled
	default:
		return sandbox.Outcome{}, cause
	}
	if out.End != sandbox.Exited {
		return out, nil
	}
	for _, m := range b.spec.Mounts {
		if m.Overlay != nil {
			continue
		}
		u, err := m.Workspace.Usage(ctx)
		if err != nil {
			return sandbox.Outcome{}, err
		}
		if u.Full() && !m.ReadOnly && !slices.Contains(out.Seen, sandbox.DiskLimit) {
			out.Seen = append(out.Seen, sandbox.DiskLimit)
		}
	}
	if b.root != "" && rootSize(b.root)-b.begun > b.limits.Disk && !slices.Contains(out.Seen, sandbox.DiskLimit) {
		out.Seen = append(out.Seen, sandbox.DiskLimit)
	}
	return out, nil
}

// capture is what the two output streams of a process share.
type capture struct {
	mu     sync.Mutex
	left   int64
	err    error        // of the caller's writer
	ended  func() error // why the process has to end, or nil
	wait   func()       // while the box is frozen
	cancel context.CancelCauseFunc
}

type stream struct {
	*capture
	w io.Writer
	n int64
}

// Write delivers bytes up to the limit of the box, which then ends.
func (s *stream) Write(p []byte) (int, error) {
	s.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ended(); err != nil {
		return 0, err
	}
	m := min(int64(len(p)), s.left)
	s.left -= m
	if s.w != nil && m > 0 {
		if _, err := s.w.Write(p[:m]); err != nil {
			s.err = fmt.Errorf("writing the output: %w", err)
			s.cancel(s.err)
			return 0, s.err
		}
	}
	s.n += m
	if m < int64(len(p)) {
		s.cancel(errOverflow)
		return int(m), errOverflow
	}
	return len(p), nil
}

// feed is a standard input whose reads end with a context.
type feed struct {
	r    *io.PipeReader
	wait func() // while the box is frozen
}

// newFeed copies r for the process. A Read of r that blocks at the end is left to
// the caller.
func newFeed(ctx context.Context, r io.Reader) *feed {
	pr, pw := io.Pipe()
	if r == nil {
		_ = pw.Close()
		return &feed{r: pr}
	}
	context.AfterFunc(ctx, func() { _ = pr.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(pw, r)
		_ = pw.CloseWithError(err)
	}()
	return &feed{r: pr}
}

func (f *feed) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	f.wait()
	return n, err
}

func (f *feed) close() { _ = f.r.Close() }
