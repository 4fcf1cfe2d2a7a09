package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox/sandboxtest"
)

// TestHubWorkerWithoutRoot: a worker needs no root where it may use an engine: one of a
// user of the engine's group does the jobs of a run that root started. It cannot write
// anywhere but to what is the user's.
func TestHubWorkerWithoutRoot(t *testing.T) {
	t.Parallel()
	const someone = 12345
	where := dockerPlace(t)
	if where.engine == "" || os.Getuid() != 0 {
		t.Skip("becoming another user takes root, and the user a Docker engine")
	}
	socket, err := os.Stat("/var/run/docker.sock")
	if err != nil {
		t.Skipf("the engine is not at its usual place: %v", err)
	}
	f, out := newMachines(t), filepath.Join(t.TempDir(), "out")
	tester, want := mixedPack(t, t.TempDir(), where.image, ownRun("hub-rootless"), 6, 0)
	credential := f.invite("both", "produce,verify")
	home, err := os.MkdirTemp("", "securebench-home-") // other tests' folders are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // what is left there is small
	run, addr := f.run(tester, "-o", out, "--engine", "docker")
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	program := filepath.Join(home, "securebench")
	err = errors.Join(err, sandboxtest.WriteProgram(program, text), os.Rename(credential, filepath.Join(home, "both.json")))
	for _, name := range []string{home, program, filepath.Join(home, "both.json")} {
		err = errors.Join(err, os.Chown(name, someone, someone))
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &member{Cmd: exec.CommandContext(t.Context(), program, "worker", "--hub", addr, "--credentials", "both.json", "--engine", "docker"), done: make(chan struct{})}
	p.Dir, p.Env, p.Stdout, p.Stderr = home, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, &p.out, &p.out
	p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someone, Gid: someone, Groups: []uint32{socket.Sys().(*syscall.Stat_t).Gid}}}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.done); _ = p.Wait() }() // it is checked by its exit code
	t.Cleanup(func() { _ = p.Process.Kill(); <-p.done })
	f.ends(run, exitDone)
	f.ends(p, exitDone)
	sameVerdicts(t, out, want)
	f.must("verify", out)
	if lines, _ := wholeLines(t, out); !strings.HasPrefix(lines[0].Workers.Produce, "both.") || len(lines[0].Retries) > 0 {
		t.Errorf("%+v", lines[0].Workers)
	}
	if _, err := os.Stat(filepath.Join(out, record.StatementName)); err != nil {
		t.Error(err)
	}
}
