// Package sandboxtest tests what makes and what uses sandboxes: [Suite] is
// the contract that every engine passes, and [Engine] is an engine in memory
// whose programs are Go functions.
package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"securebench/internal/digest"
	"securebench/internal/sandbox"
)

// Program is the code of a command of an [Engine]. It returns the exit code.
// It must end soon after ctx does, and close nothing of p.
type Program func(ctx context.Context, p *Process) int

// Process is a running program.
type Process struct {
	Args           []string
	Env            []string // NAME=VALUE
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Dir is the path of the workspace's tree on this machine, "" without
	// a workspace.
	Dir  string
	Spec sandbox.Spec

	mu   sync.Mutex
	end  sandbox.End
	seen []sandbox.End
}

// End makes the outcome of the program end, such as
// [sandbox.OutOfMemory], instead of [sandbox.Exited].
func (p *Process) End(end sandbox.End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = end
}

// See adds to the limits that the outcome says were run into.
func (p *Process) See(limits ...sandbox.End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, limits...)
}

func (p *Process) ending() (end sandbox.End, seen []sandbox.End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end, p.seen
}

// Config configures an [Engine].
type Config struct {
	// Programs are the commands by the first word of the command line. One
	// that is not there ends with exit code 127.
	Programs map[string]Program
	// Images are the images by reference. Nil is every reference.
	Images map[string]sandbox.Image
}

// Engine is a [sandbox.Engine] in memory. Its boxes confine nothing: programs
// are part of the test. Workspaces are directories on this machine, served by
// the code that serves real ones.
type Engine struct {
	cfg Config

	mu       sync.Mutex
	opens    int
	failures map[int]error // by number of the opening
	open     int           // boxes and workspaces that are not closed
	specs    []sandbox.Spec
}

var _ sandbox.Engine = (*Engine)(nil)

// New makes an engine.
func New(cfg Config) *Engine {
	return &Engine{cfg: cfg, failures: make(map[int]error)}
}

// FailOpen makes the nth call of Open from now on, counted from 1, return err.
func (e *Engine) FailOpen(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failures[e.opens+n] = err
}

// Specs returns what boxes were opened with, in order.
func (e *Engine) Specs() []sandbox.Spec {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.specs)
}

// Left is the number of boxes and workspaces that are not closed.
func (e *Engine) Left() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

func (e *Engine) count(by int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open += by
}

// Image looks an image up; without a list of images, every reference but the
// empty one is an image whose user is 1000:1000.
func (e *Engine) Image(_ context.Context, ref string) (sandbox.Image, error) {
	img, ok := e.cfg.Images[ref]
	if e.cfg.Images == nil && ref != "" {
		img, ok = sandbox.Image{ID: digest.Bytes([]byte(ref)), User: sandbox.User{UID: 1000, GID: 1000},
			OS: "linux", Arch: "amd64"}, true
	}
	if !ok {
		return sandbox.Image{}, fmt.Errorf("image %q: %w", ref, sandbox.ErrImageMissing)
	}
	img.Ref = ref
	return img, nil
}

// Open makes a box.
func (e *Engine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(spec.Command) == 0 || spec.Image.ID == "" {
		return nil, errors.New("opening a sandbox: it needs an image and a command")
	}
	b := &box{engine: e, spec: spec, limits: spec.Limits.WithDefaults(), closed: make(chan struct{})}
	if spec.Workspace != nil {
		w, ok := spec.Workspace.(*workspace)
		if !ok || w.engine != e {
			return nil, errors.New("opening a sandbox: the workspace is of another engine")
		}
		b.workspace = w
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opens++
	if err := e.failures[e.opens]; err != nil {
		delete(e.failures, e.opens)
		return nil, fmt.Errorf("opening a sandbox: %w", err)
	}
	e.open++
	e.specs = append(e.specs, spec)
	return b, nil
}

// Workspace makes a workspace in a temporary directory.
func (e *Engine) Workspace(ctx context.Context, spec sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if spec.Disk <= 0 {
		spec.Disk = sandbox.Limits{}.WithDefaults().Disk
	}
	if spec.Inodes <= 0 {
		spec.Inodes = sandbox.Inodes
	}
	dir, err := os.MkdirTemp("", "sandboxtest-")
	if err != nil {
		return nil, fmt.Errorf("making a workspace: %w", err)
	}
	e.count(1)
	return serve(e, dir, spec), nil
}
