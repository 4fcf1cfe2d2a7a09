package repopatch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/piped"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

const (
	// gitLimit bounds every step that is not the row's own command.
	gitLimit = 120 * time.Second
	// saidLimit is how much of what git prints is kept, in bytes.
	saidLimit = 64 << 10
)

// site is the sandbox of one verification: a copy of the image's checkout and a
// box that mounts it. Its first process is out of reach of what it starts.
type site struct {
	*sandboxed.Site
	dir  string // of the checkout
	user sandbox.User
	env  []string // of the row
	tree sandbox.Workspace
	box  *sandboxed.Box
}

// openSite makes the sandbox of a verification.
func openSite(ctx context.Context, at *sandboxed.Site, c family.Case, dir string, user sandbox.User) (s *site, err error) {
	s = &site{Site: at, dir: dir, user: user, env: c.Sandbox.Environment().Env}
	if s.tree, err = at.Space(ctx, "checkout", user, &sandbox.ImageFolder{Image: c.Image, Path: dir}); err != nil {
		return nil, err
	}
	// The commands have no capabilities whoever runs them.
	s.box, err = at.Open(ctx, "verifier", wholeLimit(at.Limits.Timeout), sandbox.Spec{Image: c.Image, Workdir: dir,
		Mounts: []sandbox.Mount{{Workspace: s.tree, Target: dir}}, WritableRoot: true,
		Capabilities: sandbox.Supervisor()})
	return s, err
}

// wholeLimit bounds a verification whose commands have the given limit each: the
// tests, two patches, a probe, two rehearsals, the candidate in two forms.
func wholeLimit(command time.Duration) time.Duration {
	return command + 7*min(command, gitLimit) + sandboxed.StartLimit
}

// command is one command in the sandbox, as the image's or the row's user.
type command struct {
	argv    []string
	dir     string // "" is the checkout
	env     []string
	alone   bool // without the variables of the image and the row
	stdin   io.Reader
	timeout time.Duration
	output  int64 // limit of each stream
}

// said is what a command did, and what it printed.
type said struct {
	initproc.Result
	stdout, stderr []byte
}

// limited reports whether an output was longer than its limit.
func (s said) limited() bool { return s.Stdout.Dropped+s.Stderr.Dropped > 0 }

// run runs a command. What it did is the result; an error wraps
// [initproc.ErrLost] if the sandbox ended under it.
func (s *site) run(ctx context.Context, c command) (said, error) {
	var stdout, stderr bytes.Buffer
	cmd := initproc.Command{Argv: c.argv, Env: c.env, Dir: c.dir, User: s.user, Stdin: c.stdin, Stdout: &stdout, Stderr: &stderr,
		Output: c.output, Timeout: c.timeout}
	if cmd.Dir == "" {
		cmd.Dir = s.dir
	}
	if !c.alone {
		cmd.Inherit, cmd.Env = true, append(append([]string{}, s.env...), c.env...)
	}
	res, err := s.box.Client.Run(ctx, cmd)
	return said{res, stdout.Bytes(), stderr.Bytes()}, err
}

// killAll kills every process but init.
func (s *site) killAll(ctx context.Context) error { return s.box.Client.KillAll(ctx) }

// walk reads the checkout as it is on disk, without .git. What a candidate made
// too large is a [*candidate.Rejection].
func (s *site) walk(ctx context.Context) (*repository.Tree, error) { return s.read(ctx, ".", nil) }

// read reads a part of the checkout.
func (s *site) read(ctx context.Context, path string, keep func(path string, e repository.Entry, content io.Reader) error) (t *repository.Tree, err error) {
	bounds := repository.Bounds{Bytes: s.Limits.Disk, Files: s.Limits.Files}
	_, err = piped.Both(func(w io.Writer) error { return s.tree.Get(ctx, path, bounds.ArchiveSize(), w, ".git") }, func(r io.Reader) (err error) {
		if t, err = repository.Read(r, bounds, keep); err == nil { // the end of the archive is not that of the stream
			_, err = io.Copy(io.Discard, r)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the checkout: %w", err)
	}
	return t, nil
}
