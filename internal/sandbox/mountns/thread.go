package mountns

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread calls f, which may give up what the rest of the process keeps (namespaces,
// rights, a root folder), on a thread on which no other goroutine ever runs and which ends with
// f, and waits for it. It is never the first thread of the process: that one does not
// end, and /proc/self would show what it has become.
func OnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		onThread(f)
	}()
	<-done
}

func onThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f() // the thread stays locked, so it ends with the goroutine
		return
	}
	// While this goroutine is locked to the first thread, another one gets another.
	OnThread(f)
	runtime.UnlockOSThread()
}
