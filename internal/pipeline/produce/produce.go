// Package produce runs an untrusted agent over the public view of a task, in
// a sandbox that holds nothing else.
//
// Production has two steps so that the next sandbox can be made while an
// agent works: [Producer.Prepare] lays out the workspace and makes the
// sandbox, [Session.Run] starts it and returns when it is dead.
package produce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"securebench/internal/harness"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// Producer runs one harness.
type Producer struct {
	Engine  sandbox.Engine
	Harness harness.Harness
	Assets  *os.Root // the pack's public assets; nil where it has none
	// Expect holds the digests that the assets had when the pack was loaded;
	// an asset that changed is workspace.ErrChanged. Nil checks none.
	Expect map[string]string
	// Users resolves environment.user in an image; it is asked only for rows
	// that name one. Nil knows none.
	Users func(image, name string) (sandbox.User, bool)
	// Env looks up the value of a variable that the harness forwards by
	// name. A variable that is not set is not forwarded.
	Env    func(name string) (string, bool)
	Limits sandbox.Limits // Timeout is a ceiling on top of the plan's; 0 is none
}

// Request names one attempt.
type Request struct {
	View   task.AgentView
	Image  sandbox.Image
	Labels sandbox.Labels
	// Observe returns what gets the agent's output while it runs; nil is
	// nobody.
	Observe func(stream string) io.WriteCloser
}

// Session is one prepared production.
type Session struct {
	plan   harness.Plan
	public map[string]string
	limit  time.Duration
	space  sandbox.Workspace
	box    sandbox.Box
	req    Request
}

// Result is what an agent did and left behind.
type Result struct {
	Outcome        sandbox.Outcome
	Timeout        time.Duration // the limit that was in force
	Stdout, Stderr []byte
	Plan           harness.Plan
	Workspace      sandbox.Workspace // valid until the session is closed
	Public         func(path string) string
}

// Prepare makes the workspace and the sandbox of an attempt.
// The caller closes the session.
func (p *Producer) Prepare(ctx context.Context, req Request) (*Session, error) {
	plan, err := p.Harness.Plan(req.View)
	if err != nil {
		return nil, fmt.Errorf("planning the %s harness: %w", p.Harness.Name(), err)
	}
	s := &Session{plan: plan, req: req}
	if err := s.open(ctx, p); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Session) open(ctx context.Context, p *Producer) error {
	spec, err := p.spec(s.plan, s.req)
	if err != nil {
		return err
	}
	layout, err := workspace.Layout(s.req.View, workspace.Options{
		Assets: p.Assets, Expect: p.Expect, TaskFile: s.plan.TaskFile, ArtifactPath: s.plan.ArtifactPath,
		MaxBytes: spec.Limits.Disk, MaxFiles: int(spec.Limits.Files),
	})
	if err != nil {
		return fmt.Errorf("laying out the workspace: %w", err)
	}
	owner := s.req.Image.User
	if spec.User != nil {
		owner = *spec.User
	}
	labels := s.req.Labels
	labels.Role = "workspace"
	s.space, err = p.Engine.Workspace(ctx, sandbox.WorkspaceSpec{Labels: labels, Owner: owner, Disk: spec.Limits.Disk, Inodes: spec.Limits.Files})
	if err != nil {
		return fmt.Errorf("making the workspace: %w", err)
	}
	if err := fill(ctx, s.space, layout, owner); err != nil {
		return fmt.Errorf("filling the workspace: %w", err)
	}
	s.public, s.limit = layout.Digests(), spec.Limits.Timeout
	spec.Mounts = []sandbox.Mount{{Workspace: s.space, Target: s.plan.Target}}
	if s.box, err = p.Engine.Open(ctx, spec); err != nil {
		return fmt.Errorf("making the agent's sandbox: %w", err)
	}
	return nil
}

// fill streams the layout into the workspace; nothing of it touches the
// host's disk.
func fill(ctx context.Context, space sandbox.Workspace, layout *workspace.Plan, owner sandbox.User) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := layout.WriteTar(w, owner.UID, owner.GID)
		done <- errors.Join(err, w.CloseWithError(err))
	}()
	err := space.Put(ctx, r)
	return errors.Join(err, r.CloseWithError(io.ErrClosedPipe), unlessClosed(<-done))
}

// unlessClosed drops the error that a writer gets when its reader left first.
func unlessClosed(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

func (p *Producer) spec(plan harness.Plan, req Request) (sandbox.Spec, error) {
	spec := sandbox.Spec{
		Labels: req.Labels, Image: req.Image, Command: plan.Argv,
		Workdir: plan.Workdir, Limits: p.Limits.WithDefaults(),
		Tracing: true, // debugging is work
	}
	spec.Labels.Role = "agent"
	spec.Limits.Timeout = plan.TimeLimit(p.Limits.Timeout)
	for _, name := range plan.EnvNames {
		if v, ok := p.Env(name); ok {
			spec.Env = append(spec.Env, name+"="+v)
		}
	}
	name := req.View.Environment().User
	if name == "" {
		return spec, nil
	}
	var user sandbox.User
	known := false
	if p.Users != nil {
		user, known = p.Users(req.Image.Ref, name)
	}
	if !known {
		return spec, fmt.Errorf("environment.user %q was not resolved in image %s", name, req.Image.Ref)
	}
	spec.User = &user
	return spec, nil
}

// Command is what Run runs, and where.
func (s *Session) Command() (argv []string, workdir string) { return s.plan.Argv, s.plan.Workdir }

// Run starts the agent and returns when every process of it is dead: that is
// the barrier before capture. Removing what is left waits for Close.
func (s *Session) Run(ctx context.Context) (Result, error) {
	var stdout, stderr bytes.Buffer
	seenOut, seenErr := s.observe("stdout"), s.observe("stderr")
	out, err := s.box.Run(ctx, sandbox.Streams{
		Stdout: io.MultiWriter(&stdout, seenOut), Stderr: io.MultiWriter(&stderr, seenErr),
	})
	err = errors.Join(err, seenOut.Close(), seenErr.Close())
	if err != nil {
		return Result{}, fmt.Errorf("running the agent: %w", err)
	}
	return Result{
		Outcome: out, Timeout: s.limit, Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Plan: s.plan, Workspace: s.space,
		Public: func(path string) string { return s.public[path] },
	}, nil
}

func (s *Session) observe(stream string) io.WriteCloser {
	if s.req.Observe == nil {
		return nobody{io.Discard}
	}
	return s.req.Observe(stream)
}

// nobody is an observer that does not look.
type nobody struct{ io.Writer }

func (nobody) Close() error { return nil }

// Close removes the sandbox and the workspace. It is idempotent.
func (s *Session) Close(ctx context.Context) error {
	var errs []error
	if s.box != nil {
		errs = append(errs, s.box.Close(ctx))
	}
	if s.space != nil {
		errs = append(errs, s.space.Close(ctx))
	}
	return errors.Join(errs...)
}
