package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/sampletest"
)

// sleepers writes a pack whose first task is quick and whose others sleep.
func sleepers(t *testing.T, image, runID string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var rows strings.Builder
	for i, script := range []string{"echo 4", "sleep 600", "sleep 600", "sleep 600"} {
		fmt.Fprintf(&rows, `{"id": "t%d", "input": {"question": "2+2?", "context": %q}, "eval": {"accepted_answers": ["4"]}}`+"\n", i, script)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: sleepers\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+image+"\n")
	write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: `+runID+`, output_dir: out, max_workers: 2}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config:
    command: ["sh", "-c", "eval \"$(python3 -c 'import json; print(json.load(open(\"task.json\"))[\"context\"])')\""]
`)
	return dir
}

// left counts a run's objects on the engine.
func left(t *testing.T, runID string) int {
	t.Helper()
	out := dockerOutput(t, "ps", "-aq", "--filter", "label=securebench.run="+runID) + "\n" +
		dockerOutput(t, "volume", "ls", "-q", "--filter", "label=securebench.run="+runID)
	return len(strings.Fields(out))
}

// recorded reports whether the first task has its record and the others run.
func recorded(t *testing.T, dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "out", "candidates.jsonl"))
	return err == nil && bytes.Count(data, []byte("\n")) == 1
}

func TestCtrlC(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	runID := ownRun("ctrl-c")
	dir := sleepers(t, image, runID)
	cmd := command(t, nil, "run", filepath.Join(dir, "tester.yaml"), "--progress", "plain")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaittest.Until(t, "the first record and the next agents", func() bool { return recorded(t, dir) && left(t, runID) >= 4 })
	start := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()                              // the exit code is looked at below
	if took := time.Since(start); took > hung { // the agents sleep for longer
		t.Errorf("it took %v to stop", took)
	}
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit %d, want %d\n%s", code, exitInterrupted, stderr.String())
	}
	if !strings.Contains(stderr.String(), "interrupted after 1 of 4; the records are kept in ") {
		t.Errorf("the message does not say that the records are kept:\n%s", stderr.String())
	}
	if !recorded(t, dir) {
		t.Error("the records changed")
	}
	if n := left(t, runID); n != 0 {
		t.Errorf("%d containers and volumes are left", n)
	}
}

// TestEveryWayOutCleansUp: a terminal that hangs up, once or twice, and a
// reader that closes the pipe end a run as Ctrl-C does: nothing is left on the
// engine, the records are kept, and the run can be resumed.
func TestEveryWayOutCleansUp(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("whoever started the tests ignores hang-ups, as nohup does; so does what they start")
	}
	image := needDocker(t)
	cases := []struct {
		name string
		end  func(t *testing.T, p *process, stderr *os.File)
	}{
		{"hangup", func(t *testing.T, p *process, _ *os.File) { signalTo(t, p, syscall.SIGHUP) }},
		{"hangups", func(t *testing.T, p *process, _ *os.File) {
			signalTo(t, p, syscall.SIGHUP)
			time.Sleep(100 * time.Millisecond)
			_ = p.Process.Signal(syscall.SIGHUP) // it may have ended
		}},
		{"pipe", func(t *testing.T, _ *process, stderr *os.File) { stderr.Close() }},
		{"full-pipe", func(t *testing.T, p *process, _ *os.File) { signalTo(t, p, os.Interrupt) }},
	}
	for _, c := range sampletest.Of(t, 2, cases) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runID := ownRun("out-by-" + c.name)
			dir := sleepers(t, image, runID)
			if c.name == "pipe" { // it is noticed at the next write
				rows, err := os.ReadFile(filepath.Join(dir, "tasks.jsonl"))
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, "tasks.jsonl"), strings.Replace(string(rows), "sleep 600", "sleep 12", 1))
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			p := &process{Cmd: command(t, nil, "run", filepath.Join(dir, "tester.yaml"), "--progress", "json"), done: make(chan struct{})}
			p.Stdout, p.Stderr = &p.stdout, w
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			go func() { defer close(p.done); _ = p.Wait() }()
			t.Cleanup(func() { _ = p.Process.Kill(); <-p.done })
			awaittest.Until(t, "the first record and the next agents", func() bool { return recorded(t, dir) && left(t, runID) >= 4 })
			if c.name == "full-pipe" { // neither read nor closed
				fill(t, w)
			}
			c.end(t, p, r)
			w.Close()
			res := p.ended(t, hung)
			if res.code != exitInterrupted {
				t.Errorf("exit %d, want %d", res.code, exitInterrupted)
			}
			if n := left(t, runID); n != 0 {
				t.Errorf("%d containers and volumes are left", n)
			}
			if n := recordedLines(dir); n < 1 {
				t.Errorf("%d records stay", n)
			}
			if res := securebench(t, nil, "run", filepath.Join(dir, "tester.yaml"), "--resume", "--limit", "3"); res.code != exitRefused || !strings.Contains(res.stderr, "tasks planned: was 4, is 3") {
				t.Errorf("it cannot be resumed: exit %d\n%s", res.code, res.stderr)
			}
		})
	}
}

func signalTo(t *testing.T, p *process, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// fill fills a pipe.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	fd, err := syscall.Dup(int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = syscall.Write(fd, []byte("x"))
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

// TestNohup: a run that is started with nohup survives the end of its
// terminal.
func TestNohup(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	runID := ownRun("nohup")
	dir := t.TempDir()
	tester, _ := mixedPack(t, dir, image, runID, 3, 3)
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: command(t, nil), done: make(chan struct{})}
	p.Path, p.Args = "/usr/bin/nohup", []string{"nohup", path, "run", tester, "-q", "--engine", "docker"}
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.done); _ = p.Wait() }()
	t.Cleanup(func() { _ = p.Process.Kill(); <-p.done })
	awaittest.Until(t, "the first record", func() bool { return recordedLines(dir) > 0 })
	signalTo(t, p, syscall.SIGHUP)
	if res := p.ended(t, hung); res.code != exitDone || !strings.Contains(res.stdout, " total=3 verification=complete ") {
		t.Errorf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
}

// TestKilledRunnerIsCleanedUpAfter: the next run removes what a killed run
// left, but nothing that a live run uses. The test does not run in parallel,
// because the start of any run removes what killed ones left.
func TestKilledRunnerIsCleanedUpAfter(t *testing.T) {
	image := needDocker(t)
	killedID, aliveID := ownRun("killed"), ownRun("alive")
	dead, alive := sleepers(t, image, killedID), sleepers(t, image, aliveID)
	start := func(dir string, flags ...string) *os.Process {
		cmd := command(t, nil, append([]string{"run", filepath.Join(dir, "tester.yaml"), "-q"}, flags...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
		awaittest.Until(t, "agents", func() bool { return recorded(t, dir) })
		return cmd.Process
	}
	killed := start(dead)
	if err := killed.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := killed.Wait(); err != nil {
		t.Fatal(err)
	}
	if left(t, killedID) == 0 {
		t.Fatal("the killed run left nothing, so the test proves nothing")
	}
	log := filepath.Join(t.TempDir(), "engine.log")
	start(alive, "--log", log)
	awaittest.Until(t, "the dead run's remains to go", func() bool { return left(t, killedID) == 0 })
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"msg":"removed an object of a dead run"`) {
		t.Errorf("the engine log does not say what was removed: %q, %v", text, err)
	}
	busy := func() string {
		return dockerOutput(t, "ps", "-q", "--filter", "label=securebench.run="+aliveID, "--filter", "label=securebench.task=t1")
	}
	awaittest.Until(t, "the living run's second task", func() bool { return len(strings.Fields(busy())) == 2 })
	before := busy()
	res := securebench(t, nil, "run", filepath.Join(dead, "tester.yaml"), "-o", filepath.Join(t.TempDir(), "third"), "--limit", "1", "-q")
	if res.code != 0 {
		t.Errorf("exit %d: %s", res.code, res.stderr)
	}
	if after := busy(); after != before {
		t.Errorf("a living run's containers were %q and are %q after another run's clean-up", before, after)
	}
}
