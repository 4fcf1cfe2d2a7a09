package native_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox/cgroup"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/oci"
	"securebench/internal/sandbox/owner"
)

// leftRuntime starts the runtime as an engine does. It waits for the specification, of
// which nobody writes a word.
func leftRuntime(t *testing.T, o owner.Owner) (cmd *exec.Cmd, ended chan error) {
	t.Helper()
	r, err := oci.FindRuntime(os.Getenv, enginetest.Native(t).Info().Runtime)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "config.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd = r.Run(oci.Call{State: filepath.Join(dir, "s"), Bundle: dir, ID: native.RuntimeID(o),
		PID: filepath.Join(dir, "pid"), Log: filepath.Join(dir, "log")})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return cmd, ended
}

// deadOwner is like this process, but one that had its ID before.
func deadOwner() owner.Owner {
	o := owner.Current()
	o.Start++
	return o
}

// TestDeadRuntime: what a dead process's runtime has left is killed, that of a process
// that lives is not.
func TestDeadRuntime(t *testing.T) {
	e := enginetest.Native(t)
	_, dead := leftRuntime(t, deadOwner())
	lives, living := leftRuntime(t, owner.Current())
	if _, err := e.Reap(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-dead:
	case <-time.After(awaittest.Hung):
		t.Error("the runtime of a dead process is left")
	}
	select {
	case err := <-living:
		t.Errorf("the runtime of a process that lives has ended: %v", err)
	default:
		_ = lives.Process.Kill()
		<-living
	}
}

// TestReapGoesOn: a runtime that cannot be waited for keeps nothing else from being
// removed.
func TestReapGoesOn(t *testing.T) {
	e := enginetest.Native(t)
	groups, err := cgroup.Find()
	if err != nil {
		t.Fatal(err)
	}
	o := deadOwner()
	group := native.GroupOfOwner(o)
	made := 0
	for _, pattern := range []string{"/sys/fs/cgroup/securebench", "/sys/fs/cgroup/*/securebench"} {
		tops, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, top := range tops {
			if err := os.Mkdir(filepath.Join(filepath.Dir(top), group), 0o755); err == nil {
				made++
			}
		}
	}
	if made == 0 {
		t.Fatal("no control group was made")
	}
	_, ended := leftRuntime(t, o)
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("no more time")
	cancel(over)
	if _, err := e.Reap(ctx); !errors.Is(err, over) {
		t.Errorf("got %v", err)
	}
	names, err := groups.List(filepath.Dir(group))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name == filepath.Base(group) {
			t.Error("the control group is left")
		}
	}
	<-ended
}
