package process_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox/native/process"
)

// TestMain plays a runtime like crun: it starts a process in a session of its own, which
// leaves one more behind and ends.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "parent" {
		parent(os.Args[2], os.Args[3])
	}
	if len(os.Args) < 3 || os.Args[1] != "runtime" {
		os.Exit(m.Run())
	}
	steps := os.Args[2]
	if steps == "" {
		fmt.Println(os.Getpid())
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	args := slices.Clone(os.Args)
	args[2] = steps[1:]
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: steps[0] == 's'}
	if err := cmd.Start(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// parent starts a shell that runs a script, prints its ID, and ends after some time
// without a look at it.
func parent(script, after string) {
	wait, err := time.ParseDuration(after)
	cmd := exec.Command("/bin/sh", "-c", script)
	if err != nil || cmd.Start() != nil {
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	time.Sleep(wait)
	os.Exit(0)
}

// orphan starts a runtime that leaves a process behind, which is an orphan of another
// session when orphan returns, and prints its ID. It is called with an argument that no
// other process of the machine has.
func orphan(t *testing.T) (argument string, pid int, there func() bool) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	crun := filepath.Join(t.TempDir(), "crun") // which a process is called then
	if err := os.Symlink(self, crun); err != nil {
		t.Fatal(err)
	}
	argument = rand.Text()
	cmd := exec.Command(crun, "runtime", "sf", argument) // a session, in which it starts one more
	cmd.Stdout = w
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(r, &pid); err != nil {
		t.Fatal(err)
	}
	return argument, pid, watch(t, pid)
}

// becomesOurs waits until a process is a child of this one.
func becomesOurs(t *testing.T, pid int) {
	t.Helper()
	awaittest.Until(t, "the adoption", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err != nil || strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
	})
}

// watch returns a function that reports whether a process is there, as a zombie is. Its
// number would say so of the next one that has it.
func watch(t *testing.T, pid int) (there func() bool) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return func() bool { return unix.PidfdSendSignal(fd, 0, nil, 0) == nil }
}

// TestKillRuntime ends what has left the runtime's session and process group, and
// nothing else.
func TestKillRuntime(t *testing.T) {
	otherBox, _, otherThere := orphan(t)
	thisBox, _, there := orphan(t)
	if err := process.KillRuntime(t.Context(), thisBox); err != nil {
		t.Fatal(err)
	}
	if there() {
		t.Error("the runtime's process is left")
	}
	if !otherThere() {
		t.Error("another runtime's process was killed")
	}
	if err := process.KillRuntime(t.Context(), otherBox); err != nil || otherThere() {
		t.Errorf("the other one is left: %v", err)
	}
}

// TestStarting: a first process that nobody was told of is reaped when no start is in
// progress that it could belong to, and not before.
func TestStarting(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	failing, other := process.Starting(), process.Starting()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "setsid sh -c 'echo $$; exit 7' &").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	there := watch(t, pid)
	awaittest.Until(t, "a zombie", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(text), ") Z ")
	})
	failing(true)
	if !there() {
		t.Error("it was reaped during the other start")
	}
	other(false)
	if there() {
		t.Error("it is left")
	}
}

// TestReapMakers reaps orphans of other sessions that have ended.
func TestReapMakers(t *testing.T) {
	_, pid, there := orphan(t)
	becomesOurs(t, pid)
	process.ReapMakers()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatalf("one that runs was reaped: %v", err)
	}
	awaittest.Until(t, "the zombie to be reaped", func() bool { // it is one as soon as its last thread has ended
		process.ReapMakers()
		return !there()
	})
}

// TestKill ends processes that are nobody's here, by their arguments.
func TestKill(t *testing.T) {
	argument, _, there := orphan(t)
	ctx, stop := context.WithTimeout(t.Context(), awaittest.Hung)
	defer stop()
	ended := make(chan struct{})
	defer func() { <-ended }()
	go func() { // in the place of the process that adopts it
		defer close(ended)
		for there() && ctx.Err() == nil {
			process.ReapMakers()
		}
	}()
	err := process.Kill(ctx, func(arguments []string) bool { return slices.Contains(arguments, argument) })
	if err != nil {
		t.Error(err)
	}
}

// TestKillOtherNamespace: what calls itself by such a name in another pid namespace, as
// a process of a sandbox can, is left alone and not waited for.
func TestKillOtherNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a pid namespace takes root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	forged := rand.Text()
	cmd := exec.Command(self, "runtime", "", forged)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	if _, err := fmt.Fscan(out, new(int)); err != nil { // it has its arguments
		t.Fatal(err)
	}
	go func() { ended <- cmd.Wait() }()
	asked := false
	ctx, stop := context.WithTimeout(t.Context(), awaittest.Hung)
	defer stop()
	err = process.Kill(ctx, func(arguments []string) bool {
		is := slices.Contains(arguments, forged)
		asked = asked || is
		return is
	})
	if err != nil || !asked {
		t.Errorf("asked: %v: %v", asked, err)
	}
	select {
	case err := <-ended:
		t.Errorf("it was killed: %v", err)
	case <-time.After(100 * time.Millisecond):
		_ = cmd.Process.Kill()
		<-ended
	}
}

// TestKillIsBounded: what comes back as often as it is killed is not waited for longer
// than the caller says.
func TestKillIsBounded(t *testing.T) {
	argument, pid, there := orphan(t)
	ctx, stop := context.WithTimeoutCause(t.Context(), 0, os.ErrDeadlineExceeded)
	defer stop()
	err := process.Kill(ctx, func(arguments []string) bool { return slices.Contains(arguments, argument) })
	if err == nil || !strings.Contains(err.Error(), os.ErrDeadlineExceeded.Error()) {
		t.Errorf("got %v", err)
	}
	becomesOurs(t, pid)
	for there() {
		process.ReapMakers()
	}
}
