package checkout

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// Bounds of one git command.
const (
	gitTimeout = 2 * time.Minute
	gitOutput  = 256 << 20 // of lists that are read as they come
	gitText    = 64 << 10  // of a short answer
	gitErrors  = 2 << 10
)

// errEnough ends a command or a transfer whose rest does not matter.
var errEnough = errors.New("the rest is not needed")

// git runs the git of an image on one repository.
type git struct {
	execute func(context.Context, initproc.Command) (initproc.Result, error)
	env     []string
	dir     string // of the working tree
	repo    string // .git
	user    sandbox.User
}

func newGit(execute func(context.Context, initproc.Command) (initproc.Result, error), search, dir string, user sandbox.User) *git {
	return &git{execute: execute, dir: dir, repo: dir + "/.git", user: user, env: []string{
		"PATH=" + absoluteOnly(search), "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_CEILING_DIRECTORIES=" + path.Dir(dir)}}
}

// absoluteOnly leaves the folders out of a search path that depend on where a
// command starts.
func absoluteOnly(search string) string {
	parts := slices.DeleteFunc(strings.Split(search, ":"), func(p string) bool { return !path.IsAbs(p) })
	return cmp.Or(strings.Join(parts, ":"), "/usr/local/bin:/usr/bin:/bin")
}

// fresh returns a git for the repository that is laid out in scratch, which
// finds the objects of the former one as well if former is true. That is not
// recorded in the repository.
func (g *git) fresh(former bool) *git {
	n := *g
	n.repo = scratchDir + "/.git"
	if former {
		n.env = append(slices.Clone(g.env), "GIT_ALTERNATE_OBJECT_DIRECTORIES="+g.repo+"/objects")
	}
	return &n
}

// command is a git command. The repository is named, never searched for: its
// core.worktree has no effect then, and git does not ask whose it is.
func (g *git) command(args []string) []string {
	return append([]string{"git", "--git-dir=" + g.repo, "--work-tree=" + g.dir, "--no-pager", "--no-replace-objects",
		"-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "core.commitGraph=false",
		"-c", "core.attributesFile=/dev/null", "-c", "core.excludesFile=/dev/null", "-c", "gc.auto=0"}, args...)
}

// run runs a command and returns its exit code. An image's git that does not
// start, does not end or says too much is unusable.
func (g *git) run(ctx context.Context, stdin io.Reader, stdout io.Writer, limit int64, args ...string) (code int, said string, err error) {
	stderr := &bounded.Head{Max: gitErrors}
	if stdout != nil {
		stdout = &bounded.Writer{W: stdout, Left: limit, Err: errFlood}
	}
	res, err := g.execute(ctx, initproc.Command{Argv: g.command(args), Env: g.env, Dir: g.dir, User: g.user,
		Stdin: stdin, Stdout: stdout, Stderr: &bounded.Writer{W: stderr, Left: gitText, Err: errFlood}, Output: limit + 1, Timeout: gitTimeout})
	switch {
	case errors.Is(err, errFlood):
		return 0, "", unusable("git %s printed more than %d bytes", args[0], limit)
	case errors.Is(err, errEnough):
		return 0, "", errEnough
	case err != nil:
		return 0, "", fmt.Errorf("preparing a checkout: git %s: %w", args[0], err)
	case res.End == initproc.NotStarted && res.Errno == syscall.ENOENT:
		return 0, "", unusable("the image has no git in its PATH")
	case res.End == initproc.NotStarted:
		return 0, "", unusable("the image's git cannot be started: %s", clip(res.Reason))
	case res.End == sandbox.TimedOut:
		return 0, "", unusable("git %s did not end within %v", args[0], gitTimeout)
	}
	return res.ExitCode, strings.TrimSpace(stderr.String()), nil
}

// must runs a command that has to succeed.
func (g *git) must(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	code, said, err := g.run(ctx, stdin, stdout, gitOutput, args...)
	if err == nil && code != 0 {
		err = unusable("git %s in %s ended with code %d and said %q", args[0], g.dir, code, clip(said))
	}
	return err
}

// text runs a command with a short answer.
func (g *git) text(ctx context.Context, args ...string) (out string, code int, err error) {
	var b bytes.Buffer
	code, _, err = g.run(ctx, nil, &b, gitText, args...)
	return strings.TrimSuffix(b.String(), "\n"), code, err
}

// records runs a command and calls each with its output, record by record; an
// error of each ends the command.
func (g *git) records(ctx context.Context, end byte, each func(string) error, args ...string) error {
	s := &splitter{end: end, each: each}
	if err := g.must(ctx, nil, s, args...); err != nil {
		if s.err != nil {
			return s.err
		}
		return err
	}
	if len(s.rest) > 0 {
		return unusable("the output of git %s ends in the middle of a record", args[0])
	}
	return nil
}

// maxRecord bounds a record of git's output in bytes: a path and little else.
const maxRecord = 16 << 10

// splitter calls each with what is written to it, record by record.
type splitter struct {
	end  byte
	each func(string) error
	rest []byte
	err  error
}

func (s *splitter) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for s.err == nil {
		i := bytes.IndexByte(s.rest, s.end)
		if i < 0 {
			break
		}
		s.err = s.each(string(s.rest[:i]))
		s.rest = s.rest[i+1:]
	}
	if s.err == nil && len(s.rest) > maxRecord {
		s.err = unusable("git printed a record of more than %d bytes", maxRecord)
	}
	if s.err != nil {
		return 0, errEnough
	}
	return len(p), nil
}

// errFlood ends a command that prints more than it may.
var errFlood = errors.New("too much output")

// clip shortens what an image said for a message.
func clip(s string) string { return s[:min(len(s), 300)] }
