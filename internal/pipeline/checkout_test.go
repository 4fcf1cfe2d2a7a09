package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// baseCommit is what the repository of the images here is at.
const baseCommit = "c0ffee0000000000000000000000000000000000"

// newEngine returns an engine in memory whose images contain a repository.
func newEngine(program sandboxtest.Program) *sandboxtest.Engine {
	return sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{"agent": program},
		Root: fstest.MapFS{"testbed/a.py": {Data: []byte("a\n"), Mode: 0o644}, "testbed/.git/HEAD": {Data: []byte("x"), Mode: 0o644}}})
}

// checkouts prepares repositories without git, which the engine in memory does
// not have. The content of pristine files cannot be had.
type checkouts struct {
	engine sandbox.Engine

	mu   sync.Mutex
	errs []error // of the next calls
	gets int
}

func (c *checkouts) Get(ctx context.Context, image sandbox.Image, dir string) (_ *checkout.Checkout, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gets++; len(c.errs) > 0 {
		if err, c.errs = c.errs[0], c.errs[1:]; err != nil {
			return nil, err
		}
	}
	folder := sandbox.ImageFolder{Image: image, Path: dir}
	space, err := c.engine.Workspace(ctx, sandbox.WorkspaceSpec{From: &folder})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, space.Close(ctx)) }()
	var archive bytes.Buffer
	if err := space.Get(ctx, ".", 1<<20, &archive, ".git"); err != nil {
		return nil, err
	}
	tree, err := repository.Read(&archive, repository.Bounds{Bytes: 1 << 20, Files: 100}, nil)
	if err != nil {
		return nil, err
	}
	return &checkout.Checkout{Folder: folder, Commits: []string{baseCommit}, Tree: tree, Tracked: map[string]bool{"a.py": true},
		Ignore: repository.NewIgnore(nil)}, nil
}

// changeRepository is the work of an agent: a file, and what tests leave.
func changeRepository(repo, answer string) int {
	if os.WriteFile(filepath.Join(repo, "fix.py"), []byte(answer+"\n"), 0o600) != nil || os.Mkdir(filepath.Join(repo, "__pycache__"), 0o700) != nil ||
		os.WriteFile(filepath.Join(repo, "__pycache__", "fix.pyc"), nil, 0o600) != nil {
		return 1
	}
	return 0
}

// patchFamily is a family whose candidates are patches of the image's
// repository. A patch is right if it adds the hidden gold as a line.
func patchFamily() family.Family {
	return family.Family{Name: "patch_family", NeedsImage: true, VerifySeconds: 5,
		NewVerifier: func(family.Resources) family.Verifier { return patchVerifier{} }}
}

type patchVerifier struct{ gold string }

func (patchVerifier) Open(_ context.Context, c family.Case) family.Session {
	r, _ := c.Evaluator.Get("gold")
	text, _ := r.Text()
	return patchVerifier{text}
}

func (patchVerifier) Close(context.Context) error { return nil }

func (v patchVerifier) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	data, err := c.Bytes()
	out := family.Verdict{Outcome: verdict.Failed, Reason: verdict.TestsFailed, Message: "no", Containment: verdict.Passive}
	if bytes.Contains(data, []byte("\n+"+v.gold+"\n")) {
		out = family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive}
	}
	return out, err
}

func patchTask(t *testing.T, id, question string) task.Task {
	t.Helper()
	tk, err := task.New(task.Config{ID: id, Family: "patch_family", Pack: task.Pack{ID: "pack", Version: 1}, Row: []byte(id),
		Environment: task.Environment{Image: "img", Env: []string{"TZ=UTC"}, Checkout: task.Checkout{Dir: "/testbed", Commit: baseCommit}},
		Extraction:  task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch},
		Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: jsontext.Value(fmt.Sprintf("%q", question))},
			{Name: "gold", Lane: task.Hidden, Value: jsontext.Value(`"4"`)}, {Name: "why", Lane: task.Hidden, Value: jsontext.Value(`"` + hiddenCanary + `"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// TestRepositoryRun: from the image's repository to a record. A repository that
// cannot be prepared is tried again unless the image is to blame.
func TestRepositoryRun(t *testing.T) {
	for name, tt := range map[string]struct {
		errs    []error
		commit  string
		none    bool
		outcome verdict.Outcome
		message string
		gets    int
	}{
		"passed":              {outcome: verdict.Passed, gets: 1},
		"after a retry":       {errs: []error{errors.New("the engine is busy")}, outcome: verdict.Passed, gets: 2},
		"a broken engine":     {errs: []error{errBroken, errBroken, errBroken}, outcome: verdict.Infrastructure, message: "preparing the repository: broken", gets: 3},
		"nothing to ask":      {none: true, outcome: verdict.Infrastructure, message: "nothing prepares"},
		"another commit":      {commit: strings.Repeat("0", 40), outcome: verdict.Pending, message: baseCommit, gets: 1},
		"no git in the image": {errs: []error{fmt.Errorf("%w: no git", checkout.ErrUnusable)}, outcome: verdict.Pending, message: "no git", gets: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, worker)
			b.cfg.Families["patch_family"], b.cfg.Verifiers = patchFamily(), stageVerifiers()
			prepared := &checkouts{engine: b.engine, errs: tt.errs}
			if !tt.none {
				b.cfg.Agent.(*agent.Harness).Checkouts = prepared
			}
			tk := patchTask(t, "p", "4")
			if tt.commit != "" {
				tk = patchTaskAt(t, tt.commit)
			}
			if _, err := b.run(t.Context(), tk); err != nil {
				t.Fatal(err)
			}
			l := b.entries()[0].Line
			if l.Outcome != tt.outcome || !strings.Contains(l.FailureMessage, tt.message) || prepared.gets != tt.gets {
				t.Errorf("%s: %q after %d calls", l.Outcome, l.FailureMessage, prepared.gets)
			}
			if tt.outcome == verdict.Pending && l.FailureReason != verdict.PackFault {
				t.Errorf("reason %s", l.FailureReason)
			}
			if tt.outcome == verdict.Passed {
				m := l.ProducerMetadata
				if m.Text("candidate_extraction") != "git_diff" || m.Text("candidate_workdir") != "/testbed" || m.Int("ignored_path_count") != 1 || l.Candidate.Kind != task.Patch {
					t.Errorf("record %+v", l)
				}
			}
			if n := b.engine.Left(); n != 0 {
				t.Errorf("%d boxes and workspaces are left", n)
			}
		})
	}
}

var errBroken = errors.New("broken")

// patchTaskAt is a task whose pack is wrong about the commit.
func patchTaskAt(t *testing.T, commit string) task.Task {
	t.Helper()
	tk, err := task.New(task.Config{ID: "p", Family: "patch_family", Pack: task.Pack{ID: "pack"}, Row: []byte("p"),
		Environment: task.Environment{Image: "img", Checkout: task.Checkout{Dir: "/testbed", Commit: commit}},
		Extraction:  task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch}})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}
