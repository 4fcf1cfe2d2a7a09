package initproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/wire"
)

// ApplyCapabilities are what a sandbox has to be made with, and root as its
// user, so that [Client.Apply] can change its files.
func ApplyCapabilities() []sandbox.Capability {
	return append(sandbox.Supervisor(), sandbox.Chown, sandbox.DACOverride, sandbox.FOwner, sandbox.FSetID)
}

// applied answers the request to change files. Errno is 0 if all was done.
type applied struct {
	Path  string `json:"path,omitzero"`
	Errno int    `json:"errno,omitzero"`
}

func (a applied) Check() error {
	if (a.Path == "") != (a.Errno == 0) || a.Errno < 0 || a.Errno > 4095 || len(a.Path) > maxRefusedPath {
		return fmt.Errorf("answer about the change of %q with error %d: %w", a.Path, a.Errno, wire.ErrInvalid)
	}
	return nil
}

// Apply changes the sandbox's files as a tar archive says, whose names are
// relative to the root. It takes [ApplyCapabilities], which
// init drops when the first command starts: after that, Apply fails.
//
// An [*ApplyError] is the archive's fault and leaves what was done before it.
// An error of the reader is returned as it is. A Read that is blocked when ctx
// ends is left to the caller.
func (c *Client) Apply(ctx context.Context, archive io.Reader) error {
	src := &sandbox.Input{Reader: archive}
	pr, pw := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.CopyBuffer(pw, src, make([]byte, wire.FrameSize)) // an error of the pipe means that init reads no more
		_ = pw.CloseWithError(src.Err)                              // nil is the end
	}()
	b, err := c.ask(ctx, http.MethodPut, "/files", pr, wire.MaxReply)
	_ = pr.CloseWithError(errEnded)
	select {
	case <-read:
		if src.Err != nil {
			err = src.Err
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("changing the sandbox's files: %w", err)
	}
	a, err := wire.Decode[applied](b)
	if err != nil {
		return c.hostile(err)
	}
	if a.Errno != 0 {
		return &ApplyError{Path: a.Path, Errno: syscall.Errno(a.Errno)}
	}
	return nil
}

// handleApply changes files as the archive in a request says.
func (p *processes) handleApply(w http.ResponseWriter, r *http.Request) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if !p.changes {
		wire.Answer(w, errors.New("files can be changed only by a root with the capabilities for that, and before the first command"))
		return
	}
	p.links = nil // what it knows may change
	var refused *ApplyError
	switch err := applyArchive("/", r.Body); {
	case errors.As(err, &refused):
		wire.Reply(w, applied{Path: refused.Path, Errno: int(refused.Errno)})
	case err != nil:
		wire.Answer(w, err)
	default:
		wire.Reply(w, applied{})
	}
}
