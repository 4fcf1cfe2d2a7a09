// Package readbox has delivered files read in sandboxes that have nothing else: no network,
// no image, no file of a pack. What comes back is a model. It keeps parsers, and what a
// file can do to one, apart from the runner.
package readbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"securebench/internal/artifact"
	"securebench/internal/artifact/wire"
	"securebench/internal/attended"
	"securebench/internal/family"
	"securebench/internal/frame"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/link"
	"securebench/internal/verdict"
)

// The bounds of reading a file.
const (
	MaxBytes  = 64 << 20  // of the file
	MaxMemory = 512 << 20 // of the sandbox
	MaxTime   = 30 * time.Second
)

// startLimit bounds the start of a sandbox, and settle the wait for the end of one whose
// stream has ended.
const (
	startLimit = 2 * time.Minute
	settle     = 30 * time.Second
)

// heap is how much of the memory the program's collector aims at.
const heap = "GOMEMLIMIT=400MiB"

var (
	errSlow = errors.New("the engine takes too long")
	// errOverrun ends the reading of a file.
	errOverrun = errors.New("reading the file takes too long")
)

// Unreadable is the failure of a file that is not of its type.
type Unreadable struct {
	Type artifact.Type
	Why  string // in the words of what read it, which are not for publication
}

// Error says that the file cannot be read.
func (u *Unreadable) Error() string { return fmt.Sprintf("it cannot be read as %s", u.Type) }

// Failure returns the verdict on a candidate's file that ended the reading of it, or the
// error if that is not the file's fault.
func Failure(err error, name string) error {
	var limit *family.Failure
	switch u, ok := errors.AsType[*Unreadable](err); {
	case ok:
		return family.Fail(verdict.ArtifactUnreadable, "%s: %v", name, u)
	case errors.As(err, &limit):
		return &family.Failure{Reason: limit.Reason, Message: name + ": " + limit.Message}
	}
	return err
}

// Box is a sandbox in which files are read, one after the other. One goroutine at a time may
// use it.
type Box struct {
	Time time.Duration // that reading a file may take, at most
	link *link.Link
}

// Open starts a sandbox. The caller closes it.
func Open(ctx context.Context, e sandbox.Engine, labels sandbox.Labels) (*Box, error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	user := sandbox.Nobody
	labels.Role = "reader"
	l, err := link.Start(ctx, context.WithoutCancel(ctx), e, sandbox.Spec{Labels: labels, Helper: []string{wire.Name}, User: &user, Workdir: "/",
		Stdin: true, Env: []string{heap}, Limits: sandbox.Limits{Memory: MaxMemory, Disk: 1 << 20, Pids: 64, Output: math.MaxInt64, Timeout: life}},
		link.Options{Program: []byte(wire.Version), MaxFrame: wire.MaxFrame, Stderr: link.MaxStderr})
	if err != nil {
		return nil, err
	}
	b := &Box{MaxTime, l}
	if err := b.greet(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the sandbox that reads files: %w", err), b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// greet waits until the program is there. What goes wrong until then is no file's fault.
func (b *Box) greet(ctx context.Context) error {
	hello, err := b.link.Receive(ctx)
	switch {
	case errors.Is(err, link.ErrEnded):
		said, _ := b.link.Stderr()
		out, _, err := b.link.End(ctx, settle)
		return cmp.Or(err, fmt.Errorf("the program ended with exit code %d: %.500s", out.ExitCode, said))
	case err == nil && string(hello) != wire.Version:
		return fmt.Errorf("the program says %.40q, not %q", hello, wire.Version)
	}
	return err
}

// life bounds a sandbox that is never closed.
const life = 24 * time.Hour

// Close ends the sandbox, and with it whatever it reads.
func (b *Box) Close(ctx context.Context) error { return b.link.Close(ctx) }

// Read has a file read that is known to be no longer than [MaxBytes]. The error is an
// [*Unreadable] or a [family.Failure] if the file is at fault, and then the box is of no
// more use. Any other error is the engine's or the content's.
func (b *Box) Read(ctx context.Context, t artifact.Type, size int64, content io.Reader) (*artifact.File, error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, b.Time, errOverrun)
	defer cancel()
	f, err := b.read(ctx, t, size, content)
	switch {
	case errors.Is(err, errOverrun):
		if disturbed := b.link.KillOverdue(ctx); disturbed != nil {
			return nil, disturbed
		}
		return nil, family.Fail(verdict.VerificationTimeout, "reading the file takes more than %v", b.Time)
	case errors.Is(err, link.ErrEnded):
		return nil, b.ended(ctx, t)
	case errors.Is(err, link.ErrEarly), errors.Is(err, frame.ErrInvalid), errors.Is(err, wire.ErrInvalid), errors.Is(err, wire.ErrTooLarge):
		return nil, &Unreadable{t, "what read the file has said nothing that makes sense: " + err.Error()}
	}
	return f, err
}

func (b *Box) read(ctx context.Context, t artifact.Type, size int64, content io.Reader) (*artifact.File, error) {
	head := binary.BigEndian.AppendUint64(nil, uint64(size))
	if err := b.link.Send(ctx, append(head, t...)); err != nil {
		return nil, err
	}
	buf := make([]byte, min(size, wire.MaxFrame))
	for left := size; left > 0; {
		part := buf[:min(left, int64(len(buf)))]
		if _, err := io.ReadFull(content, part); err != nil {
			return nil, fmt.Errorf("reading the file: %w", err)
		}
		if err := b.link.Send(ctx, part); err != nil {
			return nil, err
		}
		left -= int64(len(part))
	}
	first, err := b.link.Receive(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(first) == 1 && first[0] == wire.Readable:
		return b.receive(ctx, t, size)
	case len(first) > 0 && first[0] == wire.Unreadable:
		return nil, &Unreadable{t, string(first[1:])}
	}
	return nil, fmt.Errorf("%w: an answer is neither", wire.ErrInvalid)
}

// receive takes the model of a file, which is often as long as that.
func (b *Box) receive(ctx context.Context, t artifact.Type, size int64) (*artifact.File, error) {
	var message strings.Builder
	message.Grow(int(size) + wire.MaxFrame/16)
	for {
		part, err := b.link.Receive(ctx)
		switch {
		case err != nil:
			return nil, err
		case message.Len()+len(part) > wire.MaxBytes:
			return nil, wire.ErrTooLarge
		case len(part) > 0:
			message.Write(part)
			continue
		}
		text := message.String()
		if message.Cap() > 2*message.Len() { // the model has parts of it
			text = strings.Clone(text)
		}
		f, err := wire.Read(text)
		if err == nil && f.Type != t {
			err = fmt.Errorf("%w: it is of another type", wire.ErrInvalid)
		}
		return f, err
	}
}

// ended says how a sandbox ended that should have answered.
func (b *Box) ended(ctx context.Context, t artifact.Type) error {
	out, ok, err := b.link.End(ctx, settle)
	switch {
	case err != nil:
		return err
	case !ok:
		return &Unreadable{t, "what read the file has closed its stream"}
	}
	if limit := family.LimitReached(out.Limits(), "reading the file"); limit != nil {
		return limit
	}
	said, _ := b.link.Stderr()
	return &Unreadable{t, fmt.Sprintf("what read the file ended with exit code %d: %s", out.ExitCode, said)}
}
