package process_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
// session when orphan returns, and prints its ID.
func orphan(t *testing.T, argument string) (pid int) {
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
	return pid
}

// becomesOurs waits until a process is a child of this one.
func becomesOurs(t *testing.T, pid int) {
	t.Helper()
	for there(pid) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			return
		}
	}
}

// there reports whether a process has an ID, which a zombie keeps.
func there(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

// TestKillRuntime ends what has left the runtime's session and process group, and
// nothing else.
func TestKillRuntime(t *testing.T) {
	other, pid := orphan(t, "other-box"), orphan(t, "this-box")
	if err := process.KillRuntime(t.Context(), "this-box"); err != nil {
		t.Fatal(err)
	}
	if there(pid) {
		t.Error("the runtime's process is left")
	}
	if !there(other) {
		t.Error("another runtime's process was killed")
	}
	if err := process.KillRuntime(t.Context(), "other-box"); err != nil || there(other) {
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
	stat := "/proc/" + strings.TrimSpace(string(out)) + "/stat"
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(stat); err != nil || time.Now().After(end) {
			t.Fatalf("it is no zombie: %v", err)
		} else if strings.Contains(string(text), ") Z ") {
			break
		}
	}
	failing(true)
	if _, err := os.Stat(stat); err != nil {
		t.Errorf("it was reaped during the other start: %v", err)
	}
	other(false)
	if _, err := os.Stat(stat); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

// TestReapMakers reaps orphans of other sessions that have ended.
func TestReapMakers(t *testing.T) {
	pid := orphan(t, "ends")
	becomesOurs(t, pid)
	process.ReapMakers()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatalf("one that runs was reaped: %v", err)
	}
	for range 1000 { // it is a zombie as soon as its last thread has ended
		if process.ReapMakers(); !there(pid) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("a zombie is left")
}

// TestKill ends processes that are nobody's here, by their arguments.
func TestKill(t *testing.T) {
	pid := orphan(t, "of-the-dead")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan struct{})
	defer func() { <-ended }()
	go func() { // in the place of the process that adopts it
		defer close(ended)
		for there(pid) && ctx.Err() == nil {
			process.ReapMakers()
		}
	}()
	err := process.Kill(ctx, func(arguments []string) bool { return slices.Contains(arguments, "of-the-dead") })
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
	cmd := exec.Command(self, "runtime", "", "of-the-forger")
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
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	began := time.Now()
	err = process.Kill(ctx, func(arguments []string) bool {
		is := slices.Contains(arguments, "of-the-forger")
		asked = asked || is
		return is
	})
	if took := time.Since(began); err != nil || !asked || took > 10*time.Second {
		t.Errorf("after %v, asked: %v: %v", took, asked, err)
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
	pid := orphan(t, "that-stays")
	ctx, stop := context.WithTimeoutCause(t.Context(), 0, os.ErrDeadlineExceeded)
	defer stop()
	err := process.Kill(ctx, func(arguments []string) bool { return slices.Contains(arguments, "that-stays") })
	if err == nil || !strings.Contains(err.Error(), os.ErrDeadlineExceeded.Error()) {
		t.Errorf("got %v", err)
	}
	becomesOurs(t, pid)
	for there(pid) {
		process.ReapMakers()
	}
}
