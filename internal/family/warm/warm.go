// Package warm asks programs of securebench that stay running in sandboxes between
// rows: each gets one question at a time, and answers it. Starting a sandbox takes
// longer than most questions. It keeps the faults of a program apart from those of the
// engine.
package warm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"securebench/internal/attended"
	"securebench/internal/frame"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/link"
	"securebench/internal/value"
)

// startLimit bounds the start of a sandbox. Beyond it the engine is at fault.
const startLimit = 2 * time.Minute

// settle is how long to wait for the end of a sandbox whose stream has ended.
const settle = 2 * time.Second

var (
	errSlow = errors.New("the engine takes too long")
	// ErrOverrun says that a program did not answer in time. Its sandbox is gone.
	ErrOverrun = errors.New("the program has not answered in time")
	// ErrUnreadable says that what a program wrote is no answer.
	ErrUnreadable = errors.New("what the program wrote is no answer")
)

// EndedError says that a program ended instead of answering.
type EndedError struct {
	Outcome sandbox.Outcome
	Stderr  []byte // the beginning of what it printed
	Started bool   // it had said that it is ready
}

// Error says how the program ended.
func (e *EndedError) Error() string {
	when := "while it was asked"
	if !e.Started {
		when = "before it was ready"
	}
	if e.Outcome.End == sandbox.Exited {
		return fmt.Sprintf("the program ended %s, with exit code %d", when, e.Outcome.ExitCode)
	}
	return fmt.Sprintf("the program ended %s (%s)", when, e.Outcome.End)
}

// Program is a program in Python that answers questions.
type Program struct {
	// Role is the role of its sandboxes.
	Role string
	// Source is the program, which finds [frame.Python] and [value.Python] in front of
	// it. Its first message is the text "ready". After that it sends one answer for
	// each question.
	Source string
	// Data is the first question; its answer is "ready". Nil asks none. Programs of
	// the same role that differ in it have different sandboxes.
	Data []byte
	// Mounts are mounted in its sandboxes, and must be the same for a role.
	Mounts []sandbox.Mount
}

// key says which sandboxes are interchangeable.
type key struct {
	role, image, data string
	limits            sandbox.Limits
}

// Pool keeps programs running. It is safe for concurrent use.
type Pool struct {
	engine sandbox.Engine
	run    string
	boxes  *link.Pool[key, *box]
}

// New makes a pool of at most limit sandboxes, but at least one. It starts nothing.
// Nobody may ask one while another waits for their answer.
func New(engine sandbox.Engine, run string, limit int) *Pool {
	return &Pool{engine, run, link.NewPool[key, *box](limit)}
}

// Close ends the programs. Nobody may be waiting for an answer.
func (p *Pool) Close(ctx context.Context) error { return p.boxes.Close(ctx) }

// Count returns how many sandboxes there are.
func (p *Pool) Count() int { return p.boxes.Count() }

// Request is a question to a program.
type Request struct {
	Image    sandbox.Image
	Limits   sandbox.Limits // of the sandbox; its time and output do not count
	Time     time.Duration  // to the answer, once the program is ready
	Question []byte
}

// Ask returns the answer of a program. [ErrOverrun], [ErrUnreadable] and an
// [EndedError] are the program's; any other error is the engine's or this process's.
func (p *Pool) Ask(ctx context.Context, prog Program, r Request) ([]byte, error) {
	limits := r.Limits.WithDefaults()
	limits.Timeout, limits.Output = 0, 0
	k := key{prog.Role, r.Image.ID, string(prog.Data), limits}
	b, err := p.boxes.Lease(ctx, k, func(ctx context.Context) (*box, error) { return p.start(ctx, prog, r.Image, limits) })
	if err != nil {
		return nil, err
	}
	answer, err := b.ask(ctx, r.Question, r.Time, ErrOverrun)
	return answer, errors.Join(err, p.boxes.Release(ctx, k, b))
}

// box is a program in its sandbox.
type box struct {
	*link.Link
	stale   bool // it may still answer an earlier question
	started bool
}

// Reusable reports whether the box can answer another question.
func (b *box) Reusable() bool { return !b.stale && b.Alive() }

// start starts a program, and waits until it is ready.
func (p *Pool) start(ctx context.Context, prog Program, image sandbox.Image, limits sandbox.Limits) (*box, error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	spec := link.PythonSpec(image, limits, sandbox.Labels{Run: p.run, Role: prog.Role})
	spec.Mounts = append(spec.Mounts, prog.Mounts...)
	l, err := link.Start(ctx, context.WithoutCancel(ctx), p.engine, spec, link.Options{
		Program: []byte(frame.Python + value.Python() + prog.Source), MaxFrame: value.MaxMessage, Stderr: link.MaxStderr})
	if err != nil {
		return nil, err
	}
	b := &box{Link: l}
	ready := value.Text("ready").Append(nil)
	content, err := b.receive(ctx)
	if err == nil && prog.Data != nil && slices.Equal(content, ready) {
		content, err = b.ask(ctx, prog.Data, startLimit, errSlow)
	}
	if err == nil && !slices.Equal(content, ready) {
		err = ErrUnreadable
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the %s sandbox: %w", prog.Role, err), b.Close(context.WithoutCancel(ctx)))
	}
	b.started = true
	return b, nil
}

// ask sends a question and waits for the answer.
func (b *box) ask(ctx context.Context, question []byte, limit time.Duration, late error) ([]byte, error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	b.stale = true
	err := b.Send(ctx, question)
	var answer []byte
	switch {
	case err == nil:
		answer, err = b.receive(ctx)
	case errors.Is(err, link.ErrEnded):
		err = b.ended(ctx)
	case errors.Is(err, link.ErrEarly):
		err = ErrUnreadable
	}
	if errors.Is(err, late) {
		if disturbed := b.KillOverdue(ctx); disturbed != nil {
			return nil, disturbed
		}
		return nil, late
	}
	b.stale = err != nil
	return answer, err
}

// receive waits for a frame.
func (b *box) receive(ctx context.Context) ([]byte, error) {
	content, err := b.Receive(ctx)
	switch {
	case errors.Is(err, link.ErrEnded):
		return nil, b.ended(ctx)
	case errors.Is(err, frame.ErrInvalid):
		return nil, ErrUnreadable
	}
	return content, err
}

// ended says how a sandbox whose stream has ended did.
func (b *box) ended(ctx context.Context) error {
	out, ok, err := b.End(ctx, settle)
	switch {
	case err != nil:
		return err
	case !ok: // it closed its stream and went on
		return ErrUnreadable
	}
	printed, _ := b.Stderr()
	return &EndedError{Outcome: out, Stderr: printed, Started: b.started}
}
