package produce_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"securebench/internal/agent/harness"
	"securebench/internal/digest"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "CANARY-5c1d"

// fixed is a harness with one plan for every task, or an error.
type fixed struct {
	plan harness.Plan
	err  error
}

func (fixed) Name() string         { return "test" }
func (fixed) Needs() harness.Needs { return harness.Needs{} }
func (f fixed) Check(task.AgentView) (workspace.Options, error) {
	return workspace.Options{}, f.err
}
func (f fixed) Plan(task.AgentView) (harness.Plan, error) { return f.plan, f.err }

// bench is a producer over the in-memory engine with one program, "agent".
type bench struct {
	t        *testing.T
	engine   *sandboxtest.Engine
	producer *produce.Producer
	harness  *fixed
	env      task.Environment
	assets   []task.Asset
	labels   sandbox.Labels
	limits   sandbox.Limits
	user     *sandbox.User
	command  []string
	files    []byte
	checkout *sandbox.ImageFolder
	session  *produce.Session
	observe  func(string) io.WriteCloser
}

func newBench(t *testing.T, agent sandboxtest.Program) *bench {
	t.Helper()
	b := &bench{t: t, harness: &fixed{}, labels: sandbox.Labels{Run: "run", Task: "t/1", Attempt: 2},
		engine: sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{"agent": agent}})}
	b.harness.plan = harness.Plan{Argv: []string{"agent", "x"}, Workdir: "/workspace", Target: "/workspace",
		TaskFile: "task.json", Timeout: 5 * time.Second}
	b.producer = &produce.Producer{Engine: b.engine, Env: func(string) (string, bool) { return "", false }}
	t.Cleanup(func() {
		if n := b.engine.Left(); n != 0 {
			t.Errorf("%d boxes and workspaces are left", n)
		}
	})
	return b
}

func (b *bench) prepare(ctx context.Context) (*produce.Session, error) {
	b.t.Helper()
	tk, err := task.New(task.Config{ID: "t/1", Family: "short_answer", Pack: task.Pack{ID: "p", Version: 1},
		Environment: b.env, Assets: b.assets,
		Resources: []task.Resource{
			{Name: "question", Lane: task.Public, Value: jsontext.Value(`"2+2?"`)},
			{Name: "tests", Lane: task.EvaluationInputs, Value: jsontext.Value(`"` + canary + `"`)},
			{Name: "accepted_answers", Lane: task.Hidden, Value: jsontext.Value(`["` + canary + `"]`)},
		}})
	if err != nil {
		b.t.Fatal(err)
	}
	image, err := b.engine.Image(ctx, "img")
	if err != nil {
		b.t.Fatal(err)
	}
	b.producer.Harness = *b.harness
	return b.producer.Prepare(ctx, produce.Request{View: tk.Agent(), Image: image, Labels: b.labels, Limits: b.limits,
		User: b.user, Command: b.command, Files: b.files, Checkout: b.checkout}, b.observe)
}

// run prepares and runs; the session is closed at the end of the test.
func (b *bench) run() produce.Result {
	b.t.Helper()
	s, err := b.prepare(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	b.close(s)
	b.session = s
	res, err := s.Run(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

func (b *bench) close(s *produce.Session) {
	b.t.Cleanup(func() {
		for range 2 { // it is idempotent
			if err := s.Close(context.Background()); err != nil {
				b.t.Error(err)
			}
		}
	})
}

// The cleanups of the test run last in, first out: sessions are closed before
// newBench looks for what is left.

func idle(context.Context, *sandboxtest.Process) int { return 0 }

// list prints every file of the workspace as the agent sees it.
func list(_ context.Context, p *sandboxtest.Process) int {
	err := filepath.WalkDir(p.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		rel, _ := filepath.Rel(p.Dir, name)
		fmt.Fprintf(p.Stdout, "%s: %s\n", rel, bytes.TrimSpace(content))
		return err
	})
	if err != nil {
		fmt.Fprintln(p.Stderr, err)
		return 1
	}
	return 0
}

func TestAgentSeesThePublicLane(t *testing.T) {
	b := newBench(t, list)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data.csv"), []byte("1,2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	b.producer.Assets, b.assets = root, []task.Asset{{Path: "data.csv", Mount: "in/data.csv", ReadOnly: true}}
	res := b.run()
	want := "in/data.csv: 1,2\n" +
		"securebench/public/question.json: \"2+2?\"\n" +
		"task.json: {\n  \"question\": \"2+2?\"\n}\n"
	if diff := cmp.Diff(want, string(res.Stdout)); diff != "" {
		t.Errorf("workspace (-want +got):\n%s", diff)
	}
	if got := fmt.Sprintf("%+v", b.engine.Specs()); strings.Contains(got, canary) {
		t.Errorf("the sandbox's description holds a hidden value: %s", got)
	}
	if got, want := res.Public["in/data.csv"], digest.Bytes([]byte("1,2")); got != want {
		t.Errorf("the public file's digest is %q, want %q", got, want)
	}
	if got := res.Public["candidate.py"]; got != "" {
		t.Errorf("a file that was not laid out has digest %q", got)
	}
}

func TestSpec(t *testing.T) {
	b := newBench(t, idle)
	b.harness.plan.EnvNames = []string{"TZ", "UNSET", "EMPTY"}
	b.producer.Env = func(name string) (string, bool) {
		v, ok := map[string]string{"TZ": "UTC", "EMPTY": "", "OTHER": "x"}[name]
		return v, ok
	}
	b.limits = sandbox.Limits{Memory: 1 << 20, Timeout: 3 * time.Second}
	b.run()
	got := b.engine.Specs()[0]
	if diff := cmp.Diff([]string{"TZ=UTC", "EMPTY="}, got.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sandbox.Labels{Run: "run", Task: "t/1", Attempt: 2, Role: "agent"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	want := sandbox.Limits{Memory: 1 << 20, Timeout: 3 * time.Second}.WithDefaults()
	if diff := cmp.Diff(want, got.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if len(got.Mounts) != 1 || got.Mounts[0].Target != "/workspace" || got.Mounts[0].ReadOnly {
		t.Errorf("mounts %+v", got.Mounts)
	}
	if got.WritableRoot || got.Stdin || got.User != nil || got.Workdir != "/workspace" {
		t.Errorf("spec %+v", got)
	}
	if diff := cmp.Diff([]string{"agent", "x"}, got.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

func TestTimeLimit(t *testing.T) {
	tests := map[string]struct{ plan, operator, want time.Duration }{
		"neither":              {0, 0, harness.DefaultTimeout},
		"the plan's":           {2 * time.Second, 0, 2 * time.Second},
		"the operator's":       {0, 3 * time.Second, 3 * time.Second},
		"the smaller of both":  {9 * time.Second, 3 * time.Second, 3 * time.Second},
		"the plan above 900 s": {2000 * time.Second, 0, 2000 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, idle)
			b.harness.plan.Timeout, b.limits.Timeout = tt.plan, tt.operator
			res := b.run()
			if spec := b.engine.Specs()[0]; res.Timeout != tt.want || spec.Limits.Timeout != tt.want {
				t.Errorf("limit %v, in the sandbox %v; want %v", res.Timeout, spec.Limits.Timeout, tt.want)
			}
		})
	}
}

func TestUserOfTheRow(t *testing.T) {
	b := newBench(t, idle)
	b.env.User = "builder"
	b.user = &sandbox.User{UID: 12, GID: 34}
	b.run()
	if got := b.engine.Specs()[0].User; got == nil || *got != (sandbox.User{UID: 12, GID: 34}) {
		t.Errorf("the agent runs as %v", got)
	}
}

func TestOutcomes(t *testing.T) {
	tests := map[string]struct {
		agent          sandboxtest.Program
		end            sandbox.End
		code           int
		stdout, stderr string
	}{
		"exit": {func(_ context.Context, p *sandboxtest.Process) int {
			fmt.Fprint(p.Stdout, "out")
			fmt.Fprint(p.Stderr, "err")
			return 3
		}, sandbox.Exited, 3, "out", "err"},
		"out of memory": {func(_ context.Context, p *sandboxtest.Process) int {
			p.End(sandbox.OutOfMemory)
			return 137
		}, sandbox.OutOfMemory, 137, "", ""},
		"timeout": {func(ctx context.Context, p *sandboxtest.Process) int {
			fmt.Fprint(p.Stdout, "partial")
			<-ctx.Done()
			return 0
		}, sandbox.TimedOut, 124, "partial", ""},
		"flood": {func(ctx context.Context, p *sandboxtest.Process) int {
			for ctx.Err() == nil {
				_, _ = fmt.Fprint(p.Stdout, "0123456789")
			}
			return 0
		}, sandbox.OutputLimit, 137, "0123456789012345", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.agent)
			b.limits = sandbox.Limits{Output: 16, Timeout: 2 * time.Second}
			res := b.run()
			if res.Outcome.End != tt.end || res.Outcome.ExitCode != tt.code {
				t.Errorf("ended by %q with %d, want %q with %d", res.Outcome.End, res.Outcome.ExitCode, tt.end, tt.code)
			}
			if string(res.Stdout) != tt.stdout || string(res.Stderr) != tt.stderr {
				t.Errorf("stdout %q, stderr %q; want %q, %q", res.Stdout, res.Stderr, tt.stdout, tt.stderr)
			}
		})
	}
}

// The workspace outlives the agent, so that its files can be captured.
func TestWorkspaceStaysUntilClose(t *testing.T) {
	b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int {
		if err := os.WriteFile(filepath.Join(p.Dir, "candidate.py"), []byte("x = 1\n"), 0o600); err != nil {
			return 1
		}
		return 0
	})
	b.run()
	var archive bytes.Buffer
	if err := b.session.Workspace().Get(t.Context(), "candidate.py", 1<<20, &archive); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(archive.Bytes(), []byte("x = 1\n")) {
		t.Error("the agent's file is not in the workspace")
	}
}

// A failure during preparation is an error, and nothing is left on the engine:
// the cleanup of newBench checks that.
func TestPrepareFails(t *testing.T) {
	boom := errors.New("boom")
	tests := map[string]struct {
		change func(*bench)
		want   string
	}{
		"the plan":          {func(b *bench) { b.harness.err = boom }, "planning the test harness: boom"},
		"the user":          {func(b *bench) { b.env.User = "nobody" }, "environment.user"},
		"the layout":        {func(b *bench) { b.harness.plan.TaskFile = "securebench/public/question.json" }, "laying out the workspace"},
		"an asset is gone":  {func(b *bench) { b.assets = []task.Asset{{Path: "gone", Mount: "gone"}} }, "copying files into the workspace"},
		"the sandbox":       {func(b *bench) { b.engine.FailOpen(1, boom) }, "creating the agent's sandbox"},
		"no room for files": {func(b *bench) { b.limits.Disk = 1 }, "bytes in total, more than 1"},
		"too many files":    {func(b *bench) { b.limits.Files = 1 }, "more than 1 files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, idle)
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			b.producer.Assets = root
			tt.change(b)
			s, err := b.prepare(t.Context())
			if s != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("session %v, error %v; want %q", s, err, tt.want)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	b := newBench(t, func(ctx context.Context, _ *sandboxtest.Process) int {
		cancel(stopped)
		<-ctx.Done()
		return 0
	})
	s, err := b.prepare(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b.close(s)
	if _, err := s.Run(ctx); !errors.Is(err, stopped) {
		t.Errorf("Run: %v, want the cause of the context", err)
	}
	if _, err := b.prepare(ctx); !errors.Is(err, stopped) {
		t.Errorf("Prepare: %v, want the cause of the context", err)
	}
}

// watcher is an observer that records what it saw.
type watcher struct {
	bytes.Buffer
	closed int
	err    error
}

func (w *watcher) Close() error { w.closed++; return w.err }

func TestObserve(t *testing.T) {
	b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int {
		fmt.Fprint(p.Stdout, "out")
		fmt.Fprint(p.Stderr, "err")
		return 0
	})
	seen := map[string]*watcher{"stdout": {}, "stderr": {}}
	var order []string
	b.observe = func(stream string) io.WriteCloser {
		order = append(order, stream)
		return seen[stream]
	}
	res := b.run()
	if slices.Sort(order); !slices.Equal(order, []string{"stderr", "stdout"}) {
		t.Errorf("streams %v were observed", order)
	}
	for stream, want := range map[string][]byte{"stdout": res.Stdout, "stderr": res.Stderr} {
		if w := seen[stream]; w.closed != 1 || w.String() != string(want) || w.Len() != 3 {
			t.Errorf("the observer of %s saw %q and was closed %d times", stream, w, w.closed)
		}
	}
}

func TestObserverThatCannotFinish(t *testing.T) {
	b := newBench(t, idle)
	full := errors.New("disk full")
	b.observe = func(string) io.WriteCloser { return &watcher{err: full} }
	s, err := b.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.close(s)
	if _, err := s.Run(t.Context()); !errors.Is(err, full) {
		t.Errorf("Run: %v, want the observer's error", err)
	}
}
