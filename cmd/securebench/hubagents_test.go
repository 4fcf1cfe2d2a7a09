package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/awaittest"
	"securebench/internal/gateway/scripted"
	"securebench/internal/sampletest"
)

// lacks fails if a text is in a file below a folder.
func lacks(t *testing.T, dir, what, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(name)
		if bytes.Contains(content, []byte(text)) {
			t.Errorf("%s has %s", name, what)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHubFiles: the files of an agent of one's own come to the workers that run it, with
// their rights, and cannot be written. The records are those of one machine. Nothing of
// the files reaches a worker that scores, and no hidden value or key one that does not.
func TestHubFiles(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir, f, own := t.TempDir(), newMachines(t), canaries{}
	key, note, gold := own.text("key"), own.text("note"), own.text("gold")
	provider := httptest.NewServer(scripted.New(&scripted.Script{Key: key, Models: []string{"m"}}, nil))
	defer provider.Close()
	if err := os.MkdirAll(filepath.Join(dir, "agent", "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "agent", "looks"), strings.Replace(looks, "= note ]", "= '"+note+"' ]", 1))
	write(t, filepath.Join(dir, "agent", "data", "note"), note)
	if err := os.Chmod(filepath.Join(dir, "agent", "looks"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("data", filepath.Join(dir, "agent", "now")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "manifest.yaml"), "id: own\nversion: 1\ndefaults: {family: short_answer, environment: {image: \""+image+"\"}}\n")
	var rows strings.Builder
	for i := range 4 {
		fmt.Fprintf(&rows, `{"id": "t%d", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4", %q]}}`+"\n", i, gold)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	tester := filepath.Join(dir, "tester.yaml")
	write(t, tester, fmt.Sprintf(`schema_version: "0.2"
run: {id: %q, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config: {files: agent, command: [/opt/securebench/agent/looks], model: m, base_url: %q}
`, ownRun("hub-files"), provider.URL))
	keys := filepath.Join(t.TempDir(), "keys.env")
	write(t, keys, "OPENAI_API_KEY="+key+"\n")
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
	f.must("run", tester, "-o", here, "-q", "--env-file", keys)
	run, addr := f.run(tester, "-o", there, "--env-file", keys)
	caches := [2]string{t.TempDir(), t.TempDir()}
	agents := f.start("worker", "--hub", addr, "--credentials", f.invite("agents", "produce"), "--cache", caches[0])
	awaittest.Until(t, "a record", func() bool { return ended(run) || f.queued(addr, "verify") > 0 })
	if inMemory(t, agents.Process.Pid, gold) || inMemory(t, agents.Process.Pid, key) || !inMemory(t, agents.Process.Pid, "2+2?") {
		t.Error("the worker for agents has a hidden value or the key, or the search finds nothing")
	}
	lacks(t, caches[0], "a hidden value", gold)
	lacks(t, caches[0], "the key", key)
	scorers := f.start("worker", "--hub", addr, "--credentials", f.invite("scorers", "verify"), "--cache", caches[1], "--stay")
	f.ends(run, exitDone)
	f.ends(agents, exitDone)
	if inMemory(t, scorers.Process.Pid, note) || inMemory(t, scorers.Process.Pid, key) {
		t.Error("the worker for scoring has the agent's files or the key")
	}
	lacks(t, caches[1], "the agent's files", note)
	if d := cmp.Diff(found(t, here), found(t, there)); d != "" {
		t.Errorf("records (-here +there):\n%s", d)
	}
	for id, r := range found(t, there) {
		if r["outcome"] != "passed" {
			t.Errorf("%s: %v", id, r)
		}
	}
	f.must("verify", there)
	if left, err := filepath.Glob(filepath.Join(caches[0], "trees", "*")); err != nil || len(left) != 1 {
		t.Errorf("the cache has %v, %v", left, err)
	}
}

// queued counts the jobs of a role that wait for workers.
func (f *machines) queued(addr, role string) (n int) {
	f.Helper()
	var s struct {
		Queues []struct {
			Role   string
			Queued int
		}
	}
	if err := json.Unmarshal([]byte(f.must("hub", "status", "--hub", addr, "--json").stdout), &s); err != nil {
		f.Fatal(err)
	}
	for _, q := range s.Queues {
		if q.Role == role {
			n += q.Queued
		}
	}
	return n
}

// ended reports whether a process has.
func ended(p *member) bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// TestHubRealAgents: the real Codex and the real Claude Code solve tasks on a worker that
// has neither of them nor a registry. What the run says of its program and model is what
// one machine says, and the key stays with the run.
func TestHubRealAgents(t *testing.T) {
	sampletest.Nightly(t, "both agents solve tasks on one machine, and other agents on workers")
	t.Parallel()
	for name, tt := range map[string]struct {
		realHarness
		rows []string
	}{
		"hub-codex":  {newCodex(codeModel), []string{"code/tester", "term/root"}},
		"hub-claude": {claude("sonnet"), []string{"repo/root", "term/tester"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newAgentBench(t, solvingScript(t), nil)
			all, want := b.solvableRows(), map[string]string{}
			var rows []map[string]any
			for _, id := range tt.rows {
				rows, want[id] = append(rows, all[id]), "passed passed "
			}
			tester, out := b.config(name, tt.realHarness, rows), filepath.Join(t.TempDir(), "out")
			away := newMachines(t)
			away.env = append(away.env, "SECUREBENCH_AGENT_CACHE="+filepath.Join(t.TempDir(), "none"), "npm_config_registry=http://127.0.0.1:1")
			near := &machines{t, append(b.env(), away.env[0])}
			run, addr := near.run(tester, "-o", out)
			agents := away.start("worker", "--hub", addr, "--credentials", away.invite("agents", "produce"))
			scorers := away.start("worker", "--hub", addr, "--credentials", away.invite("scorers", "verify"))
			awaittest.Until(t, "a question", func() bool { return ended(run) || len(b.provider.Requests()) > 0 })
			if inMemory(t, agents.Process.Pid, b.key) || inMemory(t, scorers.Process.Pid, b.key) {
				t.Error("a worker has the key")
			}
			away.ends(run, exitDone)
			away.ends(agents, exitDone)
			away.ends(scorers, exitDone)
			sameVerdicts(t, out, want)
			b.checkRequests(tt.realHarness, tt.rows)
			checkManifest(t, out, tt.realHarness)
			away.must("verify", out)
		})
	}
}
