package mountns

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { runtime.LockOSThread() } //nolint:gochecknoinits // the main goroutine gets the first thread

// TestMain tries run on the first thread, where only the main goroutine can be.
func TestMain(m *testing.M) {
	first, where := unix.Gettid(), 0
	onThread(func() { where = unix.Gettid() })
	if first != os.Getpid() || where == first || where == 0 {
		panic("run did not leave the first thread")
	}
	os.Exit(m.Run())
}

func TestOnThread(t *testing.T) {
	threads := map[int]bool{}
	for range 20 {
		OnThread(func() {
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				t.Error(err)
			}
			if err := unix.Chdir("/"); err != nil {
				t.Error(err)
			}
			threads[unix.Gettid()] = true
		})
	}
	if threads[os.Getpid()] || len(threads) == 0 {
		t.Errorf("threads %v", threads)
	}
	if dir, err := os.Readlink("/proc/self/cwd"); err != nil || dir == "/" {
		t.Errorf("the process is in %q, %v", dir, err)
	}
}
