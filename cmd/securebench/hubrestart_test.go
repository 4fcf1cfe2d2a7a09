package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
)

// nappingPack makes a run of agents that end only when a test wakes them.
func nappingPack(t *testing.T, image, runID string, n int) (tester, nap string) {
	t.Helper()
	dir := t.TempDir()
	nap = fmt.Sprintf("90000.%06d%d", os.Getpid(), time.Now().Nanosecond())
	var rows strings.Builder
	for i := range n {
		fmt.Fprintf(&rows, `{"id": "t%d", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`+"\n", i)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: naps\nversion: 1\ndefaults: {family: short_answer, environment: {image: \""+image+"\"}}\n")
	tester = filepath.Join(dir, "tester.yaml")
	write(t, tester, fmt.Sprintf("schema_version: \"0.2\"\nrun: {id: %q, output_dir: out}\nlimits: {output: 256KiB, candidate: 64KiB}\nbenchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}\n"+
		"harness:\n  type: command\n  config:\n    command: [sh, -c, %q]\n", runID, "sleep "+nap+"; echo 4"))
	return tester, nap
}

// wake ends the processes "sleep nap" of this machine.
func wake(t *testing.T, nap string) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		p, err := os.FindProcess(pid) // holds it, whoever has the number next
		if err != nil {
			continue
		}
		if b, _ := os.ReadFile(file); string(b) == "sleep\x00"+nap+"\x00" {
			_ = p.Kill() // it may have ended
		}
		_ = p.Release()
	}
}

// kills ends a process of a test with SIGKILL.
func (p *member) kills(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

// TestHubWorkerRestarted: a worker finishes what it has while the run stands still, and is
// killed. Its next process offers that, and nothing is done twice.
func TestHubWorkerRestarted(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	f, cache, out := newMachines(t), t.TempDir(), filepath.Join(t.TempDir(), "out")
	tester, nap := nappingPack(t, image, ownRun("hub-restarted"), 3)
	run, addr := f.run(tester, "-o", out, "--lease", "1h")
	args := []string{"worker", "--hub", addr, "--credentials", f.invite("both", "produce,verify"), "--slots", "2", "--cache", cache}
	first := f.start(args...)
	awaittest.Until(t, "two agents", func() bool { return nappers(nap) == 2 })
	if err := run.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, run.Process.Pid, nil, unix.WSTOPPED, nil); err != nil {
		t.Fatal(err)
	}
	wake(t, nap)
	awaittest.Until(t, "two results", func() bool {
		all, err := filepath.Glob(filepath.Join(cache, "session-*", "results", "*.json"))
		return err == nil && len(all) == 2
	})
	first.kills(t)
	if err := run.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	second := f.start(args...)
	awaittest.Until(t, "the last agent", func() bool { return nappers(nap) == 1 })
	wake(t, nap)
	f.ends(run, exitDone)
	f.ends(second, exitDone)
	workers := readManifest(t, out).Workers
	if len(workers) != 2 || workers[0].Jobs+workers[1].Jobs != 6 {
		t.Fatalf("%+v", workers)
	}
	made := map[string]int{}
	lines, _ := wholeLines(t, out)
	for _, l := range lines {
		made[l.Workers.Produce]++
		if !l.Passed || len(l.Retries) > 0 || l.Workers.Verify != workers[1].ID {
			t.Errorf("%s: %s by %+v, %v", l.TaskID, l.Outcome, l.Workers, l.Retries)
		}
	}
	if made[workers[0].ID] != 2 || made[workers[1].ID] != 1 {
		t.Errorf("made by %v", made)
	}
	f.must("verify", out)
	if all, err := filepath.Glob(filepath.Join(cache, "session-*")); err != nil || len(all) > 0 {
		t.Errorf("left: %q, %v", all, err)
	}
}

// TestHubSpotMachine: a machine that is taken away tells its worker to stop, and ends it
// before it has finished. Another machine does its job.
func TestHubSpotMachine(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	f, out := newMachines(t), filepath.Join(t.TempDir(), "out")
	tester, nap := nappingPack(t, image, ownRun("hub-spot"), 1)
	run, addr := f.run(tester, "-o", out, "--lease", "3s")
	args := []string{"worker", "--hub", addr, "--credentials", f.invite("both", "produce,verify"), "--cache"}
	first := f.start(append(args, t.TempDir())...)
	awaittest.Until(t, "an agent", func() bool { return nappers(nap) == 1 })
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaittest.Until(t, "its farewell", func() bool { return strings.Contains(first.out.String(), "leaving when 1 call") })
	first.kills(t)
	second := f.start(append(args, t.TempDir())...)
	awaittest.Until(t, "the second worker", func() bool { return len(readManifest(t, out).Workers) == 2 })
	awaittest.Until(t, "the loss", func() bool { return strings.Contains(run.out.String(), "does not answer") })
	awaittest.Until(t, "the end", func() bool {
		wake(t, nap)
		select {
		case <-run.done:
			return true
		default:
			return false
		}
	})
	f.ends(run, exitDone)
	f.ends(second, exitDone)
	lines, _ := wholeLines(t, out)
	workers := readManifest(t, out).Workers
	if len(lines) != 1 || !lines[0].Passed || lines[0].Workers.Produce != workers[1].ID || len(lines[0].Retries) != 1 || !strings.Contains(lines[0].Retries[0].Error, "stopped answering") {
		t.Errorf("%+v", lines)
	}
	f.must("verify", out)
}

// TestHubAlone: a worker whose run is not there ends by itself, and says so in one line.
func TestHubAlone(t *testing.T) {
	t.Parallel()
	needEngine(t)
	f := newMachines(t)
	res := securebench(t, f.env, "worker", "--hub", "127.0.0.1:1", "--credentials", f.invite("late", "verify"), "--wait", "1s")
	if last := strings.Split(strings.TrimSpace(res.stderr), "\n"); res.code != exitRefused || !strings.Contains(last[len(last)-1], "no run has answered at 127.0.0.1:1 for 1s") {
		t.Errorf("exit %d\n%s", res.code, res.stderr)
	}
}

// TestHubStoppedEarly: a worker that is told to stop while it opens its engine has left,
// and the engine is not to blame.
func TestHubStoppedEarly(t *testing.T) {
	t.Parallel()
	f := newMachines(t)
	socket := filepath.Join(t.TempDir(), "s")
	silent, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	f.env = append(f.env, "DOCKER_HOST=unix://"+socket)
	p := f.start("worker", "--hub", "127.0.0.1:1", "--credentials", f.invite("early", "verify"), "--engine", "docker")
	asked, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	f.ends(p, exitDrained)
}

// TestHubFull: the disk of the run is full when workers have finished. The run ends and
// says so; with more room it is resumed, by the workers that wait for it.
func TestHubFull(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	f, dir := newMachines(t), t.TempDir()
	disk(t, filepath.Join(dir, "disk"), "size=100m")
	out, ballast := filepath.Join(dir, "disk", "out"), filepath.Join(dir, "disk", "ballast")
	tester, nap := nappingPack(t, image, ownRun("hub-full"), 4)
	run, addr := f.run(tester, "-o", out)
	worker := f.start("worker", "--hub", addr, "--credentials", f.invite("both", "produce,verify"), "--slots", "2")
	awaittest.Until(t, "two agents", func() bool { return nappers(nap) == 2 })
	fillDisk(t, ballast)
	wake(t, nap)
	f.ends(run, exitInfra)
	if text := run.out.String(); !strings.Contains(text, "no space left on device") || !strings.Contains(text, "--resume") {
		t.Errorf("the run says: %s", text)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	run = f.start("run", "--hub", addr, "--progress", "plain", tester, "-o", out, "--resume")
	awaittest.Until(t, "the end", func() bool {
		wake(t, nap)
		select {
		case <-run.done:
			return true
		default:
			return false
		}
	})
	f.ends(run, exitDone)
	f.ends(worker, exitDone)
	f.must("verify", out)
	if lines, torn := wholeLines(t, out); len(lines) != 4 || torn {
		t.Errorf("%d records", len(lines))
	}
}
