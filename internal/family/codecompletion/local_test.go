package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"securebench/internal/sandbox"
)

// localEngine runs a box's command as a plain process. Started by root, the
// process gets a process namespace of its own and its box's user, so that
// signals and /proc end where a sandbox's would; otherwise isolated is false,
// each row has a test box to itself, and tests that need more are skipped.
// Each box has a folder of its own for what a sandbox has in /tmp and
// /dev/shm: commands get its name instead.
type localEngine struct {
	python   string
	isolated bool
	root     string                // of the boxes' folders
	furnish  func(box, dir string) // puts something into a box's folder; nil is nothing
	env      []string              // of the image

	mu     sync.Mutex
	opened map[string]int // boxes by role
	open   map[string]int // that are not closed
	most   map[string]int // that were open at once
}

func newLocalEngine(tb testing.TB) *localEngine {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short: it runs Python processes")
	}
	e := &localEngine{isolated: os.Geteuid() == 0, root: openFolder(tb),
		opened: make(map[string]int), open: make(map[string]int), most: make(map[string]int)}
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		cmd := exec.Command(path, "-I", "-c", "pass")
		cmd.Dir, cmd.SysProcAttr = "/tmp", e.attributes(sandbox.Nobody)
		if cmd.Run() == nil {
			e.python = path
			return e
		}
	}
	tb.Skip("no python3 that the local engine can run")
	return nil
}

// openFolder makes a folder that every user can write to.
func openFolder(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "codecompletion")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func (e *localEngine) attributes(u sandbox.User) *syscall.SysProcAttr {
	if !e.isolated {
		return &syscall.SysProcAttr{Setpgid: true}
	}
	return &syscall.SysProcAttr{
		Setpgid:    true,
		Cloneflags: syscall.CLONE_NEWPID,
		Credential: &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)},
	}
}

// count returns how many boxes of a role were opened.
func (e *localEngine) count(role string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opened[role]
}

// atOnce returns how many boxes of a role were open at the same time.
func (e *localEngine) atOnce(role string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.most[role]
}

// User is not called here.
func (*localEngine) User(context.Context, sandbox.Image, string) (sandbox.User, error) {
	return sandbox.User{}, errors.New("the local engine has no users")
}

func (*localEngine) Info() sandbox.Info { return sandbox.Info{Name: "local"} }

func (*localEngine) Reap(context.Context) (int, error) { return 0, nil }

func (*localEngine) Close() error { return nil }

func (e *localEngine) Image(context.Context, string) (sandbox.Image, error) {
	return sandbox.Image{Ref: "local", ID: "local"}, nil
}

func (e *localEngine) Workspace(context.Context, sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	return nil, errors.New("the local engine has no workspaces")
}

func (e *localEngine) Open(_ context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	role := spec.Labels.Role
	e.opened[role]++
	e.open[role]++
	e.most[role] = max(e.most[role], e.open[role])
	return &localBox{engine: e, spec: spec, closed: make(chan struct{})}, nil
}

type localBox struct {
	engine *localEngine
	spec   sandbox.Spec
	once   sync.Once
	closed chan struct{}
}

var errBoxClosed = errors.New("the box is closed")

func (b *localBox) Close(context.Context) error {
	b.once.Do(func() {
		close(b.closed)
		b.engine.mu.Lock()
		defer b.engine.mu.Unlock()
		b.engine.open[b.spec.Labels.Role]--
	})
	return nil
}

// folder makes the box's folders and returns where a path of a sandbox lies.
func (b *localBox) folder() (dir string, inside *strings.Replacer, err error) {
	dir, err = os.MkdirTemp(b.engine.root, "box")
	if err != nil {
		return "", nil, fmt.Errorf("making a folder: %w", err)
	}
	tmp, shm := filepath.Join(dir, "tmp"), filepath.Join(dir, "shm")
	for _, d := range []string{dir, tmp, shm} {
		_ = os.Mkdir(d, 0o777)
		if err := os.Chmod(d, 0o777); err != nil {
			return "", nil, fmt.Errorf("opening a folder: %w", err)
		}
	}
	if b.engine.furnish != nil {
		b.engine.furnish(b.spec.Labels.Role, tmp)
	}
	return tmp, strings.NewReplacer("/tmp", tmp, "/dev/shm", shm, "/dev/mqueue", filepath.Join(dir, "none")), nil
}

// Run wraps the command in a shell that bounds memory, as a sandbox would.
func (b *localBox) Run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	tmp, inside, err := b.folder()
	if err != nil {
		return sandbox.Outcome{}, err
	}
	kib := b.spec.Limits.WithDefaults().Memory >> 10
	argv := append([]string{"-c", fmt.Sprintf(`ulimit -v %d; ulimit -c 0; exec "$@"`, kib), "sh", b.engine.python}, b.spec.Command[1:]...)
	for i, a := range argv {
		if strings.HasPrefix(a, "/") {
			argv[i] = inside.Replace(a)
		}
	}
	cmd := exec.Command("/bin/sh", argv...)
	cmd.Dir, cmd.Env = tmp, slices.Concat([]string{"PATH=/usr/bin:/bin", "TMPDIR=" + tmp}, b.engine.env, b.spec.Env)
	cmd.SysProcAttr = b.engine.attributes(*b.spec.User)
	cmd.Stdout, cmd.Stderr = s.Stdout, s.Stderr
	cmd.WaitDelay = 2 * time.Second // for those who inherited the pipes; on a busy machine the rest takes that long
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return sandbox.Outcome{}, fmt.Errorf("opening standard input: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return sandbox.Outcome{}, fmt.Errorf("starting the command: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(stdin, s.Stdin) // ends when the reader is closed
		stdin.Close()
	}()
	killed := make(chan error, 1)
	go func() {
		var cause error
		select {
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-b.closed:
			cause = errBoxClosed
		case <-ended:
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		killed <- cause
	}()
	_ = cmd.Wait() // how it ended is in the state
	close(ended)
	if cause := <-killed; cause != nil {
		return sandbox.Outcome{}, cause
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return sandbox.Outcome{End: sandbox.Exited, ExitCode: code}, nil
}

func TestLocalEngineIsABox(t *testing.T) {
	e := newLocalEngine(t)
	box, err := e.Open(t.Context(), sandbox.Spec{User: &sandbox.Nobody, Command: []string{"python3", "-c", "import os; os._exit(7)"}})
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	defer w.Close()
	got, err := box.Run(t.Context(), sandbox.Streams{Stdin: r})
	if err != nil || got.ExitCode != 7 {
		t.Errorf("exit code "+strconv.Itoa(got.ExitCode)+", error %v; want 7", err)
	}
}
