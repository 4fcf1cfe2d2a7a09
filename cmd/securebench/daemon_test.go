package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"securebench/internal/awaittest"
)

// daemon is a Docker engine of a test's own.
type daemon struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

// newDaemon starts one, which has the image.
func newDaemon(t *testing.T, image string) *daemon {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil || os.Getuid() != 0 {
		t.Skip("only root can start a Docker engine, where one is installed")
	}
	dir, err := os.MkdirTemp("", "securebench-daemon-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: dir}
	d.start()
	t.Cleanup(d.remove)
	archive := filepath.Join(dir, "image.tar")
	dockerOutput(t, "save", "--output", archive, image)
	dockerOutput(t, "--host", d.host(), "load", "--input", archive)
	return d
}

func (d *daemon) host() string { return "unix://" + filepath.Join(d.dir, "sock") }

// start starts the engine and waits until it answers. It has no network and a
// containerd of its own.
func (d *daemon) start() {
	d.t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	in := func(name string) string { return filepath.Join(d.dir, name) }
	d.cmd = exec.Command("dockerd", "--host", d.host(), "--data-root", in("data"), "--exec-root", in("exec"), "--pidfile", in("pid"),
		"--bridge=none", "--iptables=false", "--ip-masq=false", "--containerd-namespace=securebench-test", "--containerd-plugins-namespace=securebench-test-plugins")
	d.cmd.Stdout, d.cmd.Stderr, d.done = log, log, make(chan struct{})
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	cmd, done := d.cmd, d.done
	go func() { defer close(done); _ = cmd.Wait() }()
	awaittest.Until(d.t, "the engine", func() bool { return exec.Command("docker", "--host", d.host(), "version").Run() == nil })
}

// kill kills the engine; what it started lives on.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
	// Left behind, it keeps the next one from starting.
	if err := os.Remove(filepath.Join(d.dir, "pid")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Error(err)
	}
}

// remove ends the engine and removes what it has.
func (d *daemon) remove() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it ends its containers, and containerd
	select {
	case <-d.done:
	case <-time.After(hung):
		d.t.Error("the engine does not end")
		d.kill()
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], d.dir+"/") {
			_ = syscall.Unmount(fields[4], syscall.MNT_DETACH)
		}
	}
	if err := os.RemoveAll(d.dir); err != nil {
		d.t.Error(err)
	}
}

// TestDaemonKilled kills the engine of a run and starts it again: the run ends and
// says so, and the next start removes what is left and resumes it. TestEngineDies
// shows the same in less time, without an engine of its own.
func TestDaemonKilled(t *testing.T) {
	if os.Getenv(envFaults) == "" {
		t.Skipf("it starts a Docker engine of its own: set %s", envFaults)
	}
	image := needDocker(t)
	d, dir := newDaemon(t, image), t.TempDir()
	tester, want := mixedPack(t, dir, image, ownRun("daemon"), 12, 2)
	out, env := filepath.Join(dir, "out"), []string{"DOCKER_HOST=" + d.host()}
	p := background(t, dir, env, "run", tester, "-o", out, "--progress", "plain")
	awaittest.Until(t, "the first records", func() bool { return countLines(out) >= 3 || !p.running() })
	d.kill()
	res := p.ended(t, hung)
	if message := errorLine(t, res); res.code != exitEngine || !strings.Contains(message, "the sandbox engine stopped answering") {
		t.Errorf("exit %d, want %d: %s", res.code, exitEngine, message)
	}
	before, _ := wholeLines(t, out)
	checkAnnounced(t, announced(res), before)
	d.start()
	res = securebench(t, env, "run", tester, "-o", out, "-q", "--resume")
	if res.code != exitDone {
		t.Fatalf("with the engine back: exit %d\n%s", res.code, res.stderr)
	}
	after, _ := wholeLines(t, out)
	nothingLost(t, before, after)
	sameVerdicts(t, out, want)
	verified(t, out)
	for _, list := range [][]string{{"ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.Status}} {{.Labels}}"}, {"volume", "ls", "--format", "{{.Name}} {{.Labels}}"}} {
		if there := dockerOutput(t, append([]string{"--host", d.host()}, list...)...); there != "" {
			t.Errorf("on the engine are left: %s\n%s", there, res.stderr)
		}
	}
}
