package agent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/agent/answers"
	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// tarFile writes an archive with one entry.
func tarFile(t *testing.T, path string, h tar.Header, data string) {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	h.Size = int64(len(data))
	if err := tw.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if _, err := tw.Write([]byte(data)); err != nil || tw.Close() != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func captured(t *testing.T, r *agent.Replay, kind task.CandidateKind) (capture.Result, error) {
	t.Helper()
	tk, err := task.New(task.Config{ID: "q", Family: "f", Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromWorkspace, Kind: kind}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := candidate.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p, err := r.Prepare(t.Context(), agent.Request{View: tk.Agent(), Attempt: 1}, agent.Output{Sink: store})
	if err != nil {
		t.Fatal(err)
	}
	ran, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Capture(t.Context(), ran)
	if err == nil && res.Candidate != nil {
		if rc, err := res.Candidate.Open(); err != nil || rc.Close() != nil {
			t.Errorf("the candidate cannot be opened: %v", err)
		}
	}
	return res, err
}

// TestReplayedTree: a tar file beside the replay file is a candidate, an input
// of the run, and refused if it is hostile, changed or too large.
func TestReplayedTree(t *testing.T) {
	dir := t.TempDir()
	replay, file := filepath.Join(dir, "r.jsonl"), filepath.Join(dir, "t.tar")
	if err := os.WriteFile(replay, []byte(`{"task_id": "q", "tree": "t.tar"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	open := func(b agent.Bounds) *agent.Replay {
		t.Helper()
		r, err := agent.OpenReplay(replay, answers.Map{}, b)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	good := tar.Header{Name: "./a", Typeflag: tar.TypeReg, Mode: 0o644, Uid: 1000}
	tarFile(t, file, good, "text")
	r := open(agent.Bounds{})
	res, err := captured(t, r, task.Workspace)
	if err != nil || res.Candidate == nil || res.Candidate.Origin != candidate.Replay || !res.Candidate.IsTree() {
		t.Fatalf("%+v, %v", res, err)
	}
	if res, err := captured(t, r, task.Text); err != nil || res.Rejection == nil || !strings.Contains(res.Rejection.Message, "takes a text") {
		t.Errorf("for a family of texts: %+v, %v", res, err)
	}
	if res, err := captured(t, open(agent.Bounds{Tree: candidate.Bounds{Bytes: 3, Files: 9}}), task.Workspace); err != nil || res.Rejection == nil || res.Rejection.Reason != verdict.CandidateTooLarge {
		t.Errorf("over the limit: %+v, %v", res, err)
	}
	tarFile(t, file, good, "TEXT")
	if open(agent.Bounds{}).Digest() == r.Digest() {
		t.Error("the digest does not cover the tree")
	}
	if res, err := captured(t, r, task.Workspace); err == nil {
		t.Errorf("a file that changed was taken: %+v", res)
	}
	tarFile(t, file, tar.Header{Name: "../a", Typeflag: tar.TypeReg}, "")
	if res, err := captured(t, open(agent.Bounds{}), task.Workspace); err != nil || res.Rejection == nil || !strings.Contains(res.Rejection.Message, `"../a"`) {
		t.Errorf("a hostile tree: %+v, %v", res, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(replay, file); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.OpenReplay(replay, answers.Map{}, agent.Bounds{}); err == nil {
		t.Error("a link is a tree")
	}
	if _, err := captured(t, r, task.Workspace); err == nil || context.Cause(t.Context()) != nil {
		t.Error("a link is followed")
	}
}
