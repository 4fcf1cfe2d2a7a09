package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/awaittest"
	"securebench/internal/pipeline/record"
	"securebench/internal/porttest"
	"securebench/internal/verdict"
)

// lockedBuffer is written by a process while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// machines is a hub's folder, and the processes that a test has started.
type machines struct {
	*testing.T
	env []string
}

// member is a command that is under way.
type member struct {
	*exec.Cmd
	out  lockedBuffer
	done chan struct{}
}

func newMachines(t *testing.T) *machines {
	f := &machines{t, []string{"XDG_CONFIG_HOME=" + t.TempDir(), "XDG_CACHE_HOME=" + t.TempDir()}}
	f.must("hub", "init")
	return f
}

// must runs a command that succeeds.
func (f *machines) must(args ...string) outcome {
	f.Helper()
	res := securebench(f.T, f.env, args...)
	if res.code != exitDone {
		f.Fatalf("%v: exit %d\n%s%s", args, res.code, res.stdout, res.stderr)
	}
	return res
}

// invite makes a credential, and returns its file.
func (f *machines) invite(name, roles string) string {
	f.Helper()
	file := filepath.Join(f.TempDir(), name+".json")
	f.must("hub", "invite", "--name", name, "--roles", roles, "-o", file)
	return file
}

// start starts a command.
func (f *machines) start(args ...string) *member {
	f.Helper()
	p := &member{Cmd: command(f.T, f.env, args...), done: make(chan struct{})}
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		f.Fatal(err)
	}
	go func() { defer close(p.done); _ = p.Wait() }()
	f.Cleanup(func() { _ = p.Process.Kill(); <-p.done })
	return p
}

// ends waits for the end of a process, and fails unless that is as it should be.
func (f *machines) ends(p *member, code int) {
	f.Helper()
	awaittest.Until(f, "the end of "+strings.Join(p.Args[1:], " "), func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	if got := p.ProcessState.ExitCode(); got != code {
		f.Fatalf("%v: exit %d, want %d\n%s", p.Args[1:], got, code, p.out.String())
	}
}

var serving = regexp.MustCompile(`serving workers at (\S+)`)

// run starts a run with a hub, and returns the hub's address.
func (f *machines) run(args ...string) (*member, string) {
	f.Helper()
	p := f.start(append([]string{"run", "--hub", porttest.Pair(f), "--progress", "plain"}, args...)...)
	var m []string
	awaittest.Until(f, "the hub", func() bool {
		select {
		case <-p.done:
			f.Fatalf("the run ended: %s", p.out.String())
		default:
		}
		m = serving.FindStringSubmatch(p.out.String())
		return m != nil
	})
	return p, m[1]
}

// found reads all of the records of a run but times, what the salt has a part in, and
// sandboxes that a busy machine has not started in time.
func found(t *testing.T, out string) map[string]map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(out, "candidates.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for line := range bytes.Lines(data) {
		var r map[string]any
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"timings_ms", "seq", "mac", "prev", "workers"} {
			delete(r, key)
		}
		retries, _ := r["retries"].([]any)
		r["retries"] = slices.DeleteFunc(retries, func(again any) bool {
			said, _ := again.(map[string]any)["error"].(string)
			return strings.HasSuffix(said, "the engine takes too long")
		})
		restricted, _ := r["restricted"].([]any)
		for _, f := range restricted {
			delete(f.(map[string]any), "digest")
		}
		digests, _ := r["digests"].(map[string]any)
		for key, sum := range digests {
			if text, _ := sum.(string); strings.HasPrefix(text, "hmac") {
				delete(digests, key)
			}
		}
		all[fmt.Sprint(r["task_id"], " ", r["attempt"])] = r
	}
	return all
}

// TestHub runs tasks of six families by workers of one role each: the records are those
// of one machine, verify, and can be derived again. Both workers leave when the run has
// finished.
func TestHub(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir, f := t.TempDir(), newMachines(t)
	tester, want := writeSixFamilies(t, dir, image, ownRun("hub"))
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
	f.must("run", tester, "-o", here, "-q")
	run, addr := f.run(tester, "-o", there, "--progress", "json")
	agents := f.start("worker", "--hub", addr, "--credentials", f.invite("agents", "produce"))
	scorers := f.start("worker", "--hub", addr, "--credentials", f.invite("scorers", "verify"))
	f.ends(run, exitDone)
	f.ends(agents, exitDone)
	f.ends(scorers, exitDone)
	sameVerdicts(t, there, want)
	for _, event := range regexp.MustCompile(`(?m)^\{"event":"task_done".*$`).FindAllString(run.out.String(), -1) {
		if last := `"worker":"scorers.`; !strings.Contains(event, last) && !strings.Contains(event, `"worker":"agents.`) || strings.Contains(event, `"passed":true`) && !strings.Contains(event, last) {
			t.Errorf("the end of an attempt names no worker: %s", event)
		}
	}
	if d := cmp.Diff(found(t, here), found(t, there)); d != "" {
		t.Errorf("records (-here +there):\n%s", d)
	}
	f.must("verify", there)
	lines, _ := wholeLines(t, there)
	for _, l := range lines {
		if !strings.HasPrefix(l.Workers.Produce, "agents.") || l.Verified && l.Outcome == verdict.Passed && !strings.HasPrefix(l.Workers.Verify, "scorers.") {
			t.Errorf("%s was made by %+v", l.TaskID, l.Workers)
		}
	}
	m := readManifest(t, there)
	if len(m.Workers) != 2 || m.Workers[0].Jobs+m.Workers[1].Jobs < len(lines) || slices.Contains(m.Labels, record.OneTrustZone) {
		t.Errorf("run.json: %+v, %s", m.Workers, m.Labels)
	}
	if res := f.must("reverify", there, "--pack", dir); !strings.Contains(res.stdout, " 0 different") {
		t.Errorf("derived again: %s", res.stdout)
	}
	if _, err := os.Stat(filepath.Join(there, "restricted", "grants.jsonl")); err == nil {
		t.Error("the grants of a finished run are left")
	}
}

// TestHubResume: a run that is killed goes on with the same worker, which has waited for
// it, and one that is interrupted can be continued without a hub.
func TestHubResume(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir, f := t.TempDir(), newMachines(t)
	tester, want := mixedPack(t, dir, image, ownRun("hub-resume"), 30, 1)
	out, credentials := filepath.Join(t.TempDir(), "out"), f.invite("both", "produce,verify")
	lines := func() int {
		data, _ := os.ReadFile(filepath.Join(out, "candidates.jsonl"))
		return bytes.Count(data, []byte("\n"))
	}
	run, addr := f.run(tester, "-o", out)
	w := f.start("worker", "--hub", addr, "--credentials", credentials, "--grace", "0s")
	awaittest.Until(t, "a record", func() bool { return lines() > 2 })
	if res := f.must("hub", "status", "--hub", addr); !strings.Contains(res.stdout, "\nboth.") || !strings.Contains(res.stdout, "\nverify ") {
		t.Errorf("status: %s", res.stdout)
	}
	if res := f.must("hub", "list"); !strings.HasPrefix(res.stdout, "both  produce,verify  invited ") {
		t.Errorf("list: %s", res.stdout)
	}
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-run.done
	run = f.start("run", "--hub", addr, "--progress", "plain", tester, "-o", out, "--resume")
	had := lines()
	awaittest.Until(t, "another record", func() bool { return lines() > had+2 })
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	f.ends(run, exitInterrupted)
	if res := securebench(t, f.env, "hub", "status", "--hub", addr); res.code != exitRefused {
		t.Errorf("status of a run that has ended: exit %d\n%s", res.code, res.stderr)
	}
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	f.ends(w, exitDrained)
	f.must("run", tester, "-o", out, "--resume", "-q")
	sameVerdicts(t, out, want)
	f.must("verify", out)
}

// TestHubWorkerKilled: a worker that is killed with what it has costs time only.
func TestHubWorkerKilled(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir, f := t.TempDir(), newMachines(t)
	tester, want := mixedPack(t, dir, image, ownRun("hub-killed"), 20, 1)
	out, credentials := filepath.Join(t.TempDir(), "out"), f.invite("both", "produce,verify")
	run, addr := f.run(tester, "-o", out, "--lease", "2s")
	first := f.start("worker", "--hub", addr, "--credentials", credentials)
	awaittest.Until(t, "a record", func() bool {
		data, _ := os.ReadFile(filepath.Join(out, "candidates.jsonl"))
		return bytes.Count(data, []byte("\n")) > 2
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.done
	second := f.start("worker", "--hub", addr, "--credentials", credentials)
	f.ends(run, exitDone)
	f.ends(second, exitDone)
	sameVerdicts(t, out, want)
	f.must("verify", out)
}

// TestHubDrain: a worker that the operator drains ends with its own exit code, and another
// one does the rest.
func TestHubDrain(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir, f := t.TempDir(), newMachines(t)
	tester, want := mixedPack(t, dir, image, ownRun("hub-drain"), 20, 1)
	out, credentials := filepath.Join(t.TempDir(), "out"), f.invite("both", "produce,verify")
	run, addr := f.run(tester, "-o", out, "--metrics", "127.0.0.1:0")
	awaittest.Until(t, "the metrics", func() bool { return strings.Contains(run.out.String(), "serving metrics at http://127.0.0.1:") })
	if res := f.must("hub", "status", "--hub", addr); !strings.Contains(res.stdout, "no worker has joined") {
		t.Errorf("%s", res.stdout)
	}
	first := f.start("worker", "--hub", addr, "--credentials", credentials)
	var s struct {
		Workers []struct{ State string }
	}
	awaittest.Until(t, "a job", func() bool {
		if err := json.Unmarshal([]byte(f.must("hub", "status", "--hub", addr, "--json").stdout), &s); err != nil {
			t.Fatal(err)
		}
		return len(s.Workers) == 1 && s.Workers[0].State == "busy"
	})
	if res := f.must("hub", "status", "--hub", addr); !strings.Contains(res.stdout, "both.") || !strings.Contains(res.stdout, "produce,verify") {
		t.Errorf("%s", res.stdout)
	}
	if res := securebench(t, f.env, "hub", "drain", "--hub", addr, "nobody"); res.code != exitRefused || strings.Count(res.stderr, "\n") != 1 {
		t.Errorf("exit %d\n%s", res.code, res.stderr)
	}
	f.must("hub", "drain", "--hub", addr, "both")
	f.ends(first, exitDrained)
	second := f.start("worker", "--hub", addr, "--credentials", credentials)
	f.ends(run, exitDone)
	f.ends(second, exitDone)
	sameVerdicts(t, out, want)
	f.must("verify", out)
	if res := securebench(t, f.env, "hub", "status", "--hub", addr); res.code != exitRefused || strings.Count(res.stderr, "\n") != 1 {
		t.Errorf("after the end: exit %d\n%s", res.code, res.stderr)
	}
}

// TestHubRefuses: what cannot run on workers is refused before anything runs.
func TestHubRefuses(t *testing.T) {
	t.Parallel()
	dir, f := t.TempDir(), newMachines(t)
	for _, args := range [][]string{{"--inflight", "3"}, {"--hub", "127.0.0.1:0", "--inflight", "0"}, {"--hub", "127.0.0.1:0", "--lease", "1ms"}, {"--hub", "127.0.0.1:0", "--show-agent-output"}, {"--metrics", "127.0.0.1:0"}, {"--hub", "127.0.0.1:0", "--metrics", ":9090"}, {"--hub", "127.0.0.1:0", "--prepare", "2"}} {
		if res := securebench(t, f.env, append([]string{"run", dir, "--agent", "null"}, args...)...); res.code != exitUsage {
			t.Errorf("%v: exit %d\n%s", args, res.code, res.stderr)
		}
	}
	for _, args := range [][]string{{"worker"}, {"worker", "--hub", "127.0.0.1:1", "--credentials", "x", "--stay", "--wait", "1s"}, {"launch", "k8s", "--workers", "2"}, {"hub"}, {"hub", "invite"}, {"hub", "invite", "--name", "A", "-o", filepath.Join(dir, "x")}, {"hub", "revoke", "nobody"}, {"hub", "status"}, {"hub", "drain"}, {"hub", "drain", "x"}} {
		if res := securebench(t, f.env, args...); res.code != exitUsage && res.code != exitConfig {
			t.Errorf("%v: exit %d\n%s", args, res.code, res.stderr)
		}
	}
}

func readManifest(t *testing.T, out string) record.Manifest {
	t.Helper()
	m, _, err := record.ReadManifest(os.DirFS(out))
	if err != nil {
		t.Fatal(err)
	}
	return m
}
