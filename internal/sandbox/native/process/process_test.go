package process_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"securebench/internal/sandbox/native/process"
)

// TestHeldIDIsKept: the ID of a process that has ended is free for others, unless
// somebody uses it.
func TestHeldIDIsKept(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		child, err := os.StartProcess("/bin/cat", []string{"cat"}, &os.ProcAttr{Files: make([]*os.File, 3)})
		if err != nil {
			t.Fatal(err)
		}
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
		_ = child.Kill() // without standard streams it may have ended
		if held {
			for zombie := false; !zombie; time.Sleep(time.Millisecond) {
				stat, err := os.ReadFile("/proc/" + strconv.Itoa(child.Pid) + "/stat")
				if err != nil {
					t.Fatalf("the ID is free: %v", err)
				}
				zombie = strings.Contains(string(stat), ") Z ")
			}
			time.Sleep(20 * time.Millisecond) // time to be reaped
			if _, err := os.Stat("/proc/" + strconv.Itoa(child.Pid)); err != nil || p.Ended() {
				t.Errorf("the ID is free: %v", err)
			}
		}
		release()
		<-p.Done()
		if _, ok := p.Hold(); ok {
			t.Error("a process that has ended is held")
		}
	}
}
