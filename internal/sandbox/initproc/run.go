package initproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/wire"
)

// Command is what [Client.Run] runs.
type Command struct {
	Argv []string // a name without a slash is looked up in the PATH of Env
	Env  []string // NAME=VALUE; all of the environment, unless Inherit is set
	// Inherit adds the variables with which the sandbox was made, its image's
	// among them, as far as Env does not set them.
	Inherit bool
	Dir     string // absolute; "" is "/"
	User    sandbox.User
	// Capabilities are kept by the command and by those that it starts, if it
	// runs as root. The sandbox has to be made with them as its grants.
	Capabilities []sandbox.Capability
	// Stdin is empty if it is nil. A Read that is blocked when the command
	// ends is left to the caller.
	Stdin io.Reader
	// Stdout and Stderr are the null device if they are nil. A Write must
	// not block for ever; its error kills the command and is returned.
	Stdout, Stderr io.Writer
	Output         int64         // bytes of Stdout, and of Stderr; 0 is 8 MiB
	Timeout        time.Duration // 0 is none
}

// NotStarted is the end of a command that the sandbox could not start.
const NotStarted sandbox.End = "not_started"

// Result is what a command did. Init reports it, except for the first fields of
// commands that did not end by themselves.
type Result struct {
	// End is [sandbox.Exited], [sandbox.TimedOut] or [NotStarted].
	End sandbox.End `json:"-"`
	// Reason says why the command was not started, and Errno by what error.
	Reason string        `json:"-"`
	Errno  syscall.Errno `json:"-"`
	// ExitCode is 124 after a timeout, 128+n after signal n, 127 and 126 if
	// the program was not found or could not be executed, and the command's
	// own otherwise.
	ExitCode int           `json:"exit_code"`
	Signal   int           `json:"signal"` // that killed it, or 0
	Duration time.Duration `json:"duration_ns"`
	// The processor time and the largest memory in bytes are those of the
	// command and of the processes that it waited for.
	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
	MaxRSS int64         `json:"max_rss"`
	Stdout Output        `json:"stdout"`
	Stderr Output        `json:"stderr"`
}

var (
	errTimeout = errors.New("the command's time is up")
	errEnded   = errors.New("the command has ended")
)

// Run runs a command and waits for its end. What the command did is the
// result; the error is what the caller, init or the connection failed to do.
// When ctx ends, the command is killed with its descendants and the cause of
// ctx is returned. 32 commands run side by side, others wait.
func (c *Client) Run(ctx context.Context, cmd Command) (Result, error) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	defer func() { <-c.slots }()
	res, err := c.run(ctx, cmd)
	if err != nil {
		return Result{}, fmt.Errorf("running a command: %w", err)
	}
	return res, nil
}

func (c *Client) run(ctx context.Context, cmd Command) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	// A request to start must not be given up half-way: it would be unknown
	// whether it took effect.
	rctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(errEnded)
	r := &run{client: c, cancel: cancel, limit: cmd.Output}
	if r.limit == 0 {
		r.limit = defaultOutput
	}
	stop := context.AfterFunc(ctx, func() { r.giveUp(context.Cause(ctx)) })
	defer stop()
	defer r.finish()
	s, err := r.start(rctx, cmd)
	if err != nil {
		return Result{}, r.cause(err)
	}
	if s.ID == 0 {
		return notStarted(s), r.cause(nil)
	}
	r.path = "/commands/" + strconv.FormatUint(s.ID, 10)
	r.begun()
	if cmd.Timeout > 0 {
		t := attended.AfterFunc(cmd.Timeout, func() { r.giveUp(errTimeout) })
		defer t.Stop()
	}
	return r.wait(rctx, cmd)
}

func notStarted(s started) Result {
	res := Result{End: NotStarted, ExitCode: sandbox.ExitCannot, Errno: syscall.Errno(s.Errno), Reason: s.Message}
	if res.Errno == syscall.ENOENT {
		res.ExitCode = sandbox.ExitNotFound
	}
	return res
}

// run is the state of one Run.
type run struct {
	client *Client
	cancel context.CancelCauseFunc // of its requests
	limit  int64
	path   string

	mu       sync.Mutex
	running  bool
	finished bool
	why      error // it was given up
	watchdog *attended.Timer
}

// giveUp kills the command for a reason. If its end does not come then, init
// is lost.
func (r *run) giveUp(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil || r.finished {
		return
	}
	r.why = why
	r.watchdog = attended.AfterFunc(r.client.grace, func() {
		r.client.fail(fmt.Errorf("it does not end a command within %v", r.client.grace))
	})
	if r.running {
		go r.kill()
	}
}

// begun kills a command that was given up before it was known.
func (r *run) begun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = true
	if r.why != nil {
		go r.kill()
	}
}

func (r *run) kill() {
	ctx, cancel := attended.WithTimeout(context.Background(), r.client.grace)
	defer cancel()
	_ = r.client.do(ctx, http.MethodDelete, r.path, nil) // the watchdog sees to what this fails to do
}

func (r *run) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = true
	if r.watchdog != nil {
		r.watchdog.Stop()
	}
}

// cause returns the reason for giving the command up, or else err.
func (r *run) cause(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil && (err == nil || !errors.Is(r.why, errTimeout)) {
		return r.why
	}
	return err
}

func (r *run) start(ctx context.Context, cmd Command) (started, error) {
	s := start{Argv: cmd.Argv, Env: cmd.Env, Inherit: cmd.Inherit, Dir: cmd.Dir, UID: cmd.User.UID, GID: cmd.User.GID, Output: r.limit, Capabilities: cmd.Capabilities,
		Stdin: cmd.Stdin != nil, Stdout: cmd.Stdout != nil, Stderr: cmd.Stderr != nil}
	if s.Dir == "" {
		s.Dir = "/"
	}
	if err := s.Check(); err != nil {
		return started{}, err
	}
	b, err := wire.Encode(s)
	if err != nil {
		return started{}, err
	}
	if len(b) > maxStart {
		return started{}, fmt.Errorf("its arguments and environment take more than %d bytes", maxStart)
	}
	b, err = r.client.ask(ctx, http.MethodPost, "/commands", bytes.NewReader(b), wire.MaxReply)
	if err != nil {
		return started{}, err
	}
	answer, err := wire.Decode[started](b)
	if err != nil {
		return answer, r.client.hostile(err)
	}
	return answer, nil
}

// wait carries the streams of a command that runs, and waits for its report.
func (r *run) wait(ctx context.Context, cmd Command) (Result, error) {
	var streams sync.WaitGroup
	var stdout, stderr int64
	stopFeeding := r.feed(ctx, cmd.Stdin, &streams)
	r.fetch(ctx, "/stdout", cmd.Stdout, &stdout, &streams)
	r.fetch(ctx, "/stderr", cmd.Stderr, &stderr, &streams)
	b, err := r.client.ask(ctx, http.MethodGet, r.path, nil, wire.MaxReply)
	stopFeeding()
	if err != nil {
		r.cancel(err)
	}
	streams.Wait()
	if err != nil {
		if r.cause(nil) == nil && !errors.Is(err, ErrLost) { // no init refuses to report
			err = r.client.hostile(err)
		}
		return Result{}, r.cause(err)
	}
	res, err := wire.Decode[Result](b)
	if err == nil && (res.Stdout.Bytes != stdout || res.Stderr.Bytes != stderr) && r.cause(nil) == nil {
		err = fmt.Errorf("reported %d and %d bytes of output, sent %d and %d: %w",
			res.Stdout.Bytes, res.Stderr.Bytes, stdout, stderr, wire.ErrInvalid)
	}
	if err != nil {
		return Result{}, r.client.hostile(err)
	}
	switch why := r.cause(nil); {
	case errors.Is(why, errTimeout) && res.Duration < cmd.Timeout && res.Signal == 0: // its end was on its way
		res.End = sandbox.Exited
	case errors.Is(why, errTimeout):
		res.End, res.ExitCode = sandbox.TimedOut, sandbox.ExitTimedOut
	case why != nil:
		return Result{}, why
	default:
		res.End = sandbox.Exited
	}
	return res, nil
}

// feed sends the caller's reader as standard input until the command ends.
func (r *run) feed(ctx context.Context, stdin io.Reader, streams *sync.WaitGroup) (stop func()) {
	if stdin == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	pr, pw := io.Pipe()
	go func() {
		in := &sandbox.Input{Reader: stdin}
		_, _ = io.Copy(pw, in) // an error of the pipe means that the command reads no more
		_ = pw.Close()
		if in.Err != nil {
			r.giveUp(fmt.Errorf("reading the standard input: %w", in.Err))
		}
	}()
	streams.Go(func() {
		// The command can end, or close its input, before all is sent.
		_ = r.client.do(ctx, http.MethodPut, r.path+"/stdin", pr)
		_ = pr.CloseWithError(errEnded)
	})
	return func() {
		_ = pr.CloseWithError(errEnded)
		cancel(errEnded)
	}
}

// fetch copies an output stream to the caller's writer and counts its bytes.
func (r *run) fetch(ctx context.Context, name string, w io.Writer, count *int64, streams *sync.WaitGroup) {
	if w == nil {
		return
	}
	streams.Go(func() {
		res, err := r.client.send(ctx, http.MethodGet, r.path+name, nil)
		if err != nil {
			return // it also fails the report
		}
		defer res.Body.Close()
		dst := &sink{w: w}
		buf := make([]byte, copySize)
		*count, _ = io.CopyBuffer(dst, io.LimitReader(res.Body, r.limit+1), buf)
		switch {
		case dst.err != nil:
			r.giveUp(fmt.Errorf("writing the output: %w", dst.err))
		case *count > r.limit:
			_ = r.client.hostile(fmt.Errorf("more than %d bytes of output: %w", r.limit, wire.ErrInvalid))
		}
	})
}

// sink remembers an error of its writer.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}
