package pipeline_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent"
	columns "securebench/internal/agent/answers"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// changesFamily is a family whose candidates are trees. A tree is right if it
// consists of the changes that the hidden gold lists. Its solution is a program
// with files.
func changesFamily() family.Family {
	return family.Family{Name: "changes", NeedsImage: true, VerifySeconds: 5,
		NewVerifier: func(family.Resources) family.Verifier { return changesVerifier{} },
		Reference: func(task.EvaluatorView) (family.Solution, bool) {
			return family.Solution{Command: []string{"agent"}, Path: "solution"}, true
		}}
}

type changesVerifier struct {
	gold   string
	detail bool   // with modes and owners
	parent string // what the changes can begin with: a folder in which something changed
}

func (v changesVerifier) Open(_ context.Context, c family.Case) family.Session {
	r, _ := c.Evaluator.Get("gold")
	text, _ := r.Text()
	return changesVerifier{text, v.detail, v.parent}
}

func (changesVerifier) Close(context.Context) error { return nil }

func (v changesVerifier) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	r, err := c.Open()
	if err != nil {
		return family.Verdict{}, err
	}
	defer r.Close()
	var got []string
	_, err = candidate.ReadTree(r, candidate.Bounds{Bytes: 1 << 20, Files: 100}, func(e candidate.Entry, _ io.Reader) error {
		sign := "+"
		if e.Deleted {
			sign = "-"
		}
		if v.detail && !e.Deleted {
			sign = fmt.Sprintf("%v %d:%d %s", e.Mode, e.UID, e.GID, e.Target)
		}
		got = append(got, sign+e.Path)
		return nil
	})
	all := strings.Join(got, " ")
	out := family.Verdict{Outcome: verdict.Failed, Reason: verdict.TestsFailed, Message: all, Containment: verdict.Passive}
	if strings.TrimPrefix(all, v.parent) == v.gold {
		out = family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive}
	}
	return out, err
}

// changesTask is a task that begins as the image's repository.
func changesTask(t *testing.T, gold string, captured task.Captured, capabilities ...string) task.Task {
	t.Helper()
	tk, err := task.New(task.Config{ID: "c", Family: "changes", Pack: task.Pack{ID: "pack", Version: 1}, Row: []byte("c"),
		Environment: task.Environment{Image: "img", Workdir: "/testbed", MaterializeWorkdir: true, WritableRoot: captured.Root("/testbed"), Capabilities: capabilities},
		Extraction:  task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}, Captured: captured, Adapted: true,
		Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: jsontext.Value(`"change it"`)},
			{Name: "gold", Lane: task.Hidden, Value: jsontext.Value(fmt.Sprintf("%q", gold))}}})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// changer is an agent that changes, adds and removes files of the workspace, and
// adds one beside it if it can. An agent that is asked to then waits for its
// end.
func changer(wait bool) sandboxtest.Program {
	return func(ctx context.Context, p *sandboxtest.Process) int {
		err := errors.Join(os.Remove(filepath.Join(p.Dir, "a.py")), os.WriteFile(filepath.Join(p.Dir, "new"), nil, 0o600))
		if beside, missing := p.Path("/srv/x", true); missing == nil {
			err = errors.Join(err, os.MkdirAll(filepath.Dir(beside), 0o755), os.WriteFile(beside, nil, 0o600))
		}
		if wait {
			<-ctx.Done()
		}
		if err != nil {
			fmt.Fprintln(p.Stderr, err)
			return 1
		}
		return 0
	}
}

func newChangesBench(t *testing.T, wait bool) *bench {
	b := newBench(t, changer(wait))
	b.cfg.Families["changes"] = changesFamily()
	b.cfg.Verifiers = map[string]family.Verifier{"changes": changesVerifier{}}
	return b
}

// TestTreeRun: the candidate is what an agent changed. What the image and the
// task brought along costs nothing, and files beside the workspace count where
// the row says so.
func TestTreeRun(t *testing.T) {
	for name, tt := range map[string]struct {
		agent    func(*bench) agent.Agent
		captured task.Captured
		gold     string
	}{
		"the workspace":              {nil, task.Captured{}, "-testbed/a.py +testbed/new"},
		"a folder beside":            {nil, task.Captured{Roots: []string{"/srv", "/testbed"}}, "+srv +srv/x -testbed/a.py +testbed/new"},
		"a folder that is not there": {nil, task.Captured{Roots: []string{"/never/made", "/testbed"}}, "-testbed/a.py +testbed/new"},
		"less of it":                 {nil, task.Captured{Roots: []string{"/testbed"}, Exclude: []string{"/testbed/new"}}, "-testbed/a.py"},
		"no agent":                   {func(*bench) agent.Agent { return agent.Null{} }, task.Captured{}, ""},
		"the own solution":           {oracleWithFiles, task.Captured{}, "-testbed/a.py +testbed/new"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newChangesBench(t, false)
			if tt.agent != nil {
				b.cfg.Agent = tt.agent(b)
			}
			if _, err := b.run(t.Context(), changesTask(t, tt.gold, tt.captured)); err != nil {
				t.Fatal(err)
			}
			l := b.entries()[0]
			labels := []string{"adapted", "unpinned_image"}
			if tt.captured.Root("/testbed") {
				labels = slices.Insert(labels, 1, "disk_sampled")
			}
			if l.Outcome != verdict.Passed || !slices.Equal(l.Labels, labels) {
				t.Errorf("%s: %s, labels %v, want the changes %s", l.Outcome, l.FailureMessage, l.Labels, tt.gold)
			}
			missing := slices.Contains(tt.captured.Roots, "/never/made")
			if l.ProducerMetadata["missing_roots"] != nil || (l.ProducerMetadata.Int("missing_root_count") == 1) != missing ||
				slices.ContainsFunc(l.Restricted, func(f record.RawFile) bool { return strings.HasSuffix(f.Path, "missing_roots.json") }) != missing {
				t.Errorf("roots that are missing: %v, restricted %v", l.ProducerMetadata, l.Restricted)
			}
			if got := b.rederive(t.Context(), changesTask(t, tt.gold, tt.captured), l, changesVerifier{}); !got.Equal() {
				t.Errorf("verified again: %+v", got)
			}
			if n := b.engine.Left(); n != 0 {
				t.Errorf("%d sandboxes and volumes are left", n)
			}
		})
	}
}

// oracleWithFiles runs solutions with one file.
func oracleWithFiles(b *bench) agent.Agent {
	var archive bytes.Buffer
	if err := tar.NewWriter(&archive).Close(); err != nil {
		b.t.Fatal(err)
	}
	runner := b.cfg.Agent.(*agent.Harness).Runner
	runner.Solutions = func(path string) ([]byte, error) {
		if path != "solution" {
			return nil, errors.New("another path")
		}
		return archive.Bytes(), nil
	}
	return &agent.Oracle{Runner: &runner}
}

// TestReplayedChanges: a replayed tree lies in the workspace and deletes
// nothing.
func TestReplayedChanges(t *testing.T) {
	dir := t.TempDir()
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	if err := errors.Join(tw.WriteHeader(&tar.Header{Name: "x/new", Typeflag: tar.TypeReg, Mode: 0o644}), tw.Close(),
		os.WriteFile(filepath.Join(dir, "t.tar"), archive.Bytes(), 0o600),
		os.WriteFile(filepath.Join(dir, "r.jsonl"), []byte(`{"task_id":"c","tree":"t.tar"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	replay, err := agent.OpenReplay(filepath.Join(dir, "r.jsonl"), columns.Map{}, agent.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	b := newChangesBench(t, false)
	b.cfg.Agent = replay
	if sum, err := b.run(t.Context(), changesTask(t, "+testbed/x/new", task.Captured{})); err != nil || sum.Of(verdict.Computed).Passed != 1 {
		t.Errorf("%+v, %v: %s", sum, err, b.entries()[0].FailureMessage)
	}
}

// TestScoreTimeouts: what a timed-out agent left counts only if the operator
// says so, and the record tells, also after the verification was repeated.
func TestScoreTimeouts(t *testing.T) {
	want := []string{"adapted", "scored_timeout", "unpinned_image"}
	for _, on := range []bool{false, true} {
		b := newChangesBench(t, true)
		runner := &b.cfg.Agent.(*agent.Harness).Runner
		runner.ScoreTimeouts, runner.Limits = on, sandbox.Limits{Timeout: 1}
		tk := changesTask(t, "-testbed/a.py +testbed/new", task.Captured{})
		b.cfg.Verifiers["changes"], b.cfg.Retries = failing{}, 0
		if _, err := b.run(t.Context(), tk); err != nil {
			t.Fatal(err)
		}
		former := b.entries()[0].Line
		if !on {
			if former.Outcome != verdict.AgentTimeout || former.Candidate != (record.Candidate{}) || slices.Contains(former.Labels, "scored_timeout") {
				t.Errorf("%s, labels %v", former.Outcome, former.Labels)
			}
			continue
		}
		b.cfg.Verifiers["changes"] = changesVerifier{}
		b.cfg.Unverified = b.waiting(b.entries()...)
		if _, err := b.run(t.Context(), tk); err != nil {
			t.Fatal(err)
		}
		l := b.entries()[1]
		if l.Outcome != verdict.Passed || !slices.Equal(l.Labels, want) || !slices.Equal(former.Labels, want) || l.ProducerMetadata.Int("timeout_seconds") != 0 {
			t.Errorf("%s: %s, labels %v, before %v", l.Outcome, l.FailureMessage, l.Labels, former.Labels)
		}
		if got := b.rederive(t.Context(), tk, l, changesVerifier{}); !got.Equal() {
			t.Errorf("verified again: %+v", got)
		}
	}
}

// TestImageWithoutTheFolder: that an image cannot give the workspace is the
// pack's fault, and is not tried again.
func TestImageWithoutTheFolder(t *testing.T) {
	b := newChangesBench(t, false)
	runner := &b.cfg.Agent.(*agent.Harness).Runner
	runner.Limits = sandbox.Limits{Files: 1}
	if _, err := b.run(t.Context(), changesTask(t, "", task.Captured{})); err != nil {
		t.Fatal(err)
	}
	l := b.entries()[0]
	if l.Outcome != verdict.Pending || l.FailureReason != verdict.PackFault || len(l.Retries) != 0 || !strings.Contains(l.FailureMessage, "materialize_workdir_from_image") {
		t.Errorf("%s/%s after %d retries: %s", l.Outcome, l.FailureReason, len(l.Retries), l.FailureMessage)
	}
}
