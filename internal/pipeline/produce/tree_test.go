package produce_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"securebench/internal/agent/harness"
	"securebench/internal/candidate"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
)

// spaces is an engine that keeps how workspaces were asked for, by role.
type spaces struct {
	sandbox.Engine

	mu    sync.Mutex
	specs map[string]sandbox.WorkspaceSpec
}

func (e *spaces) Info() sandbox.Info { return sandbox.Info{DiskSampled: true} }

func (e *spaces) Workspace(ctx context.Context, spec sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	e.mu.Lock()
	e.specs[spec.Labels.Role] = spec
	e.mu.Unlock()
	return e.Engine.Workspace(ctx, spec)
}

// withTree gives a bench an image with files and a task whose candidate is the
// workspace at /app.
func withTree(t *testing.T, program sandboxtest.Program) (*bench, *spaces) {
	b := newBench(t, program)
	root := fstest.MapFS{"app/lib/a.py": {Data: []byte("old\n"), Mode: 0o644}, "app/task.json": {Data: []byte("the image's"), Mode: 0o644},
		"etc/motd": {Data: []byte("hello\n"), Mode: 0o644}}
	b.engine = sandboxtest.New(sandboxtest.Config{Root: root, Programs: map[string]sandboxtest.Program{"agent": program}})
	seen := &spaces{Engine: b.engine, specs: map[string]sandbox.WorkspaceSpec{}}
	b.producer.Engine = seen
	b.env.Workdir, b.env.MaterializeWorkdir = "/app", true
	b.harness.plan.Target, b.harness.plan.Workdir = "/app", "/app"
	b.harness.plan.Extract = task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}
	return b, seen
}

// paths lists what a base holds.
func paths(b *candidate.Base) (out []string) {
	next := b.All()
	for p, ok := next(); ok; p, ok = next() {
		out = append(out, p.Path)
	}
	return out
}

// TestBeginsAsTheImage: the workspace is the image's folder with the task's
// files over it, and the base says what the agent found.
func TestBeginsAsTheImage(t *testing.T) {
	b, seen := withTree(t, func(_ context.Context, p *sandboxtest.Process) int {
		list(context.Background(), p)
		return errorCode(os.WriteFile(filepath.Join(p.Dir, "new"), nil, 0o600))
	})
	res := b.run()
	if got := string(res.Stdout); !strings.Contains(got, "lib/a.py: old") || strings.Contains(got, "the image's") || !strings.Contains(got, "2+2?") || res.Outcome.ExitCode != 0 {
		t.Errorf("the agent sees %s", got)
	}
	want := []string{"lib", "lib/a.py", "securebench", "securebench/public", "securebench/public/question.json", "task.json"}
	if got := paths(b.session.Base()); !slices.Equal(got, want) {
		t.Errorf("the base has %q, want %q", got, want)
	}
	if b.session.Root() != nil || b.engine.Specs()[0].WritableRoot || seen.specs["workspace"].ReadAll {
		t.Errorf("more is open than the task asks for: %+v", b.engine.Specs()[0])
	}
}

func errorCode(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

// TestBaseIsShared: attempts that begin alike share one base; another owner or
// another folder is another one.
func TestBaseIsShared(t *testing.T) {
	b, _ := withTree(t, idle)
	base := func() *candidate.Base {
		b.run()
		return b.session.Base()
	}
	first := base()
	if base() != first {
		t.Error("two attempts at a task do not share their base")
	}
	b.user = &sandbox.User{UID: 7, GID: 7}
	if base() == first {
		t.Error("the workspace of another owner has the same base")
	}
	b.user, b.env.Capabilities, b.producer.Granted = nil, []string{"CHOWN"}, []sandbox.Capability{sandbox.Chown}
	if base() == first {
		t.Error("a workspace that can be read whole has the base of one that cannot")
	}
	b.env.Capabilities, b.env.MaterializeWorkdir = nil, false
	if got := base(); got == first || len(paths(got)) != 4 {
		t.Errorf("an empty workspace has the base %q", paths(got))
	}
	b.harness.plan.Extract = task.Extraction{Mode: task.FromStdout}
	if base() != nil {
		t.Error("a text has a base")
	}
}

// TestNoSuchFolder: an image that cannot give the workspace is the pack's fault.
func TestNoSuchFolder(t *testing.T) {
	b, _ := withTree(t, idle)
	b.harness.plan.Target = "/none"
	if _, err := b.prepare(t.Context()); !errors.Is(err, produce.ErrFolder) || !errors.Is(err, sandbox.ErrNoFolder) || !strings.Contains(err.Error(), "materialize") {
		t.Errorf("a folder that is missing: %v", err)
	}
	b.harness.plan.Target, b.limits = "/app", sandbox.Limits{Disk: 1}
	if _, err := b.prepare(t.Context()); !errors.Is(err, produce.ErrFolder) || !errors.Is(err, sandbox.ErrTooSmall) {
		t.Errorf("a folder that is too large: %v", err)
	}
}

// TestWritableRoot: the root is writable where the task says so, and can be read
// afterwards.
func TestWritableRoot(t *testing.T) {
	change := func(_ context.Context, p *sandboxtest.Process) int {
		file, err := p.Path("/etc/motd", true)
		if err == nil {
			err = os.WriteFile(file, []byte("changed\n"), 0o600)
		}
		return errorCode(err)
	}
	b, _ := withTree(t, change)
	if res := b.run(); res.Outcome.ExitCode == 0 || res.DiskSampled {
		t.Fatalf("the root is writable although the task does not say so: %+v", res)
	}
	b.env.WritableRoot = true
	if res := b.run(); res.Outcome.ExitCode != 0 || !res.DiskSampled {
		t.Fatalf("%+v", res)
	}
	changes, err := b.session.Root().Changes(t.Context(), 100)
	if err != nil || !slices.ContainsFunc(changes, func(c sandbox.Change) bool { return c.Path == "/etc/motd" }) {
		t.Errorf("changes %+v, %v", changes, err)
	}
}

// TestOwnersCanChange: where the agent has capabilities, the workspace's files
// are served whoever owns them.
func TestOwnersCanChange(t *testing.T) {
	b, seen := withTree(t, idle)
	b.env.Capabilities, b.producer.Granted = []string{"CHOWN"}, []sandbox.Capability{sandbox.Chown}
	b.run()
	if !seen.specs["workspace"].ReadAll {
		t.Error("files of other users cannot be read")
	}
}

// solve reads a file of the solution, and tries to change it.
func solve(_ context.Context, p *sandboxtest.Process) int {
	file, err := p.Path(harness.ProgramDir+"/solve.sh", false)
	if err != nil {
		return 1
	}
	content, err := os.ReadFile(file)
	fmt.Fprintf(p.Stdout, "%s", content)
	if _, denied := p.Path(harness.ProgramDir+"/solve.sh", true); !errors.Is(denied, fs.ErrPermission) {
		return 2
	}
	return errorCode(err)
}

// TestSolutionFiles: the program of a row finds its files, which are root's and
// read-only. An agent finds none.
func TestSolutionFiles(t *testing.T) {
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "solve.sh", Mode: 0o555, Size: 6}); err != nil {
		t.Fatal(err)
	}
	if _, err := tw.Write([]byte("echo 4")); err != nil || tw.Close() != nil {
		t.Fatal(err)
	}
	b, seen := withTree(t, solve)
	b.env.MaterializeWorkdir = false
	b.command, b.files = []string{"agent"}, archive.Bytes()
	if res := b.run(); res.Outcome.ExitCode != 0 || string(res.Stdout) != "echo 4" {
		t.Errorf("%+v", res)
	}
	if s := seen.specs["solution"]; s.Owner != (sandbox.User{}) || s.Disk > 1<<21 || s.From != nil {
		t.Errorf("the volume %+v", s)
	}
	b.command, b.files = nil, nil
	if res := b.run(); res.Outcome.ExitCode != 1 || len(b.engine.Specs()[1].Mounts) != 1 {
		t.Errorf("an agent finds files of a solution: %+v", res)
	}
}
