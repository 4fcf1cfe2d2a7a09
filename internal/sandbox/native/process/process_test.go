package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox/native/process"
)

// TestHeldIDIsKept: the ID of a process that has ended is free for others, unless
// it is used.
func TestHeldIDIsKept(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		child, end := blocked(t)
		there := watch(t, child.Pid)
		p, err := process.Adopt(child.Pid, false)
		if err != nil {
			t.Fatal(err)
		}
		release := func() {}
		if held {
			var ok bool
			if release, ok = p.Hold(); !ok {
				t.Error("a process that runs cannot be held")
			}
		}
		end()
		if held {
			awaittest.Until(t, "a zombie", func() bool {
				stat, err := os.ReadFile("/proc/" + strconv.Itoa(child.Pid) + "/stat")
				return err != nil || strings.Contains(string(stat), ") Z ")
			})
			time.Sleep(20 * time.Millisecond) // time to be reaped
			if !there() || p.Ended() {
				t.Error("the ID is free")
			}
		}
		release()
		<-p.Done()
		if _, ok := p.Hold(); ok {
			t.Error("a process that has ended is held")
		}
	}
}

// blocked starts a process that runs until end is called.
func blocked(t *testing.T) (child *os.Process, end func()) {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	child, err = os.StartProcess("/bin/sh", []string{"sh", "-c", "read line"}, &os.ProcAttr{Files: []*os.File{in, nil, nil}})
	if err != nil {
		t.Fatal(err)
	}
	return child, func() { out.Close() }
}

// TestLateAdoption: a process becomes a child of this one whenever its parent ends, which
// a busy machine can put off. Its own end, before that or after, is known all the same.
func TestLateAdoption(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"ends before its parent": "exit 7", "ends after it": "sleep 1.5; exit 7"} {
		cmd := exec.Command(self, "parent", script, "1s")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Fscan(out, &pid); err != nil {
			t.Fatal(err)
		}
		there := watch(t, pid)
		p, err := process.Adopt(pid, false)
		if err != nil {
			t.Fatal(err)
		}
		if x := <-p.Exit(); x.Err != nil || x.Status.ExitStatus() != 7 {
			t.Errorf("%s: got exit code %d, %v", name, x.Status.ExitStatus(), x.Err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if there() {
			t.Errorf("%s: it is not reaped", name)
		}
	}
}

// TestLostExit: what another has reaped is an error at once, not waited for.
func TestLostExit(t *testing.T) {
	child, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 7"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Adopt(child.Pid, false)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = child.Wait() // either gets it
	select {
	case x := <-p.Exit():
		if x.Err == nil && x.Status.ExitStatus() != 7 {
			t.Errorf("got %+v", x)
		}
	case <-time.After(awaittest.Hung):
		t.Error("it is waited for")
	}
}
