// Package hostgit reads objects of the operator's own clones with the git of
// this machine. It starts one plumbing command for each clone, with an empty
// environment and configuration, and checks nothing out. It keeps this apart: nothing
// else outside of the engines and the command starts a process.
package hostgit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"securebench/internal/bounded"
	"securebench/internal/importer/onecommit"
	"securebench/internal/redact"
)

// maxObject bounds one object in bytes.
const maxObject = 256 << 20

// patience is how long git has to end once its input has ended.
const patience = 10 * time.Second

// Repo is an open clone. It is not safe for concurrent use.
type Repo struct {
	dir   string
	cmd   *exec.Cmd
	ask   io.WriteCloser
	reply *bufio.Reader
	said  *bounded.Head
	stop  context.CancelFunc
}

// Find returns the folder of a repository below dir, as a bare repository or
// one with files: owner/name, owner__name or owner+name, with or without a
// folder repo inside, each with or without the suffix .git.
func Find(dir, repo string) (string, error) {
	owner, name, ok := strings.Cut(repo, "/")
	if !ok || !plain(owner) || !plain(name) {
		return "", fmt.Errorf("the repository %q is not written as owner/name", repo)
	}
	for _, sep := range []string{"/", "__", "+"} {
		base := filepath.Join(dir, owner+sep+name)
		for _, p := range []string{base, base + ".git", filepath.Join(base, "repo"), filepath.Join(base, "repo.git")} {
			for _, git := range []string{filepath.Join(p, ".git"), p} {
				if isRepository(git) {
					return git, nil
				}
			}
		}
	}
	return "", fmt.Errorf("%s holds no clone of %s: put one at %s", dir, repo, filepath.Join(dir, owner, name))
}

// plain reports whether s is one part of a path.
func plain(s string) bool {
	return s != "" && s[0] != '.' && s[0] != '-' && !strings.ContainsAny(s, "/\\\x00")
}

func isRepository(dir string) bool {
	head, err := os.Stat(filepath.Join(dir, "HEAD"))
	objects, err2 := os.Stat(filepath.Join(dir, "objects"))
	return errors.Join(err, err2) == nil && head.Mode().IsRegular() && objects.IsDir()
}

// Open starts git for a clone's folder, as [Find] returns it.
func Open(ctx context.Context, dir string) (*Repo, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, errors.New("reading a clone needs git: install it")
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the clone: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	r := &Repo{dir: dir, stop: stop, said: &bounded.Head{Max: 400}}
	// A clone may belong to another user: it is only read. Objects that it does
	// not have are not fetched: that could run what its configuration names.
	// Git before 2.39.4 does not know GIT_NO_LAZY_FETCH, and GIT_ALLOW_PROTOCOL,
	// unlike protocol.allow, holds against that configuration.
	r.cmd = exec.CommandContext(ctx, git, "-c", "safe.directory=*", "--git-dir="+dir, "cat-file", "--batch")
	r.cmd.Dir, r.cmd.Stderr, r.cmd.WaitDelay = "/", r.said, patience
	r.cmd.Env = []string{"PATH=" + filepath.Dir(git), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"}
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		r.ask, err = r.cmd.StdinPipe()
	}
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("starting git: %w", err)
	}
	r.reply = bufio.NewReader(out)
	return r, nil
}

// Object returns an object of the clone.
func (r *Repo) Object(id onecommit.ID, kind onecommit.Kind) ([]byte, error) {
	if _, err := fmt.Fprintln(r.ask, id); err != nil {
		return nil, r.failed(err)
	}
	line, err := r.reply.ReadString('\n')
	if err != nil {
		return nil, r.failed(err)
	}
	fields := strings.Fields(line)
	if len(fields) == 2 && fields[1] == "missing" {
		return nil, fmt.Errorf("the clone %s does not have the %s %s: fetch it", r.dir, kind, id)
	}
	if len(fields) != 3 || fields[1] != kind.String() {
		return nil, fmt.Errorf("in the clone %s, %s is not a %s", r.dir, id, kind)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size < 0 || size > maxObject {
		return nil, fmt.Errorf("in the clone %s, the %s %s has more than %d bytes", r.dir, kind, id, maxObject)
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(r.reply, data); err != nil {
		return nil, r.failed(err)
	}
	return data[:size], nil
}

func (r *Repo) failed(err error) error {
	return fmt.Errorf("reading the clone %s: git: %s: %w", r.dir, redact.EscapeShort(strings.TrimSpace(r.said.String()), 200), err)
}

// Close ends git.
func (r *Repo) Close() error {
	err := r.ask.Close()
	r.stop() // what it still says does not matter
	_ = r.cmd.Wait()
	return err
}
