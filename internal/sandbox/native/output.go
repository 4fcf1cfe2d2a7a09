package native

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

// pipedOutput delivers what a command writes to two pipes. It keeps reading whatever
// happens to that, so that the command does not block before it is killed.
type pipedOutput struct {
	*sandbox.Delivery
	stdout, stderr stream

	mu   sync.Mutex    // held while a pipe is read and a writer of the caller is called
	done chan struct{} // closed when both streams have ended
}

// stream is one of the two pipes.
type stream struct {
	pipe *os.File
	to   *sandbox.OutputStream
}

// newOutput delivers to the writers of s what comes from two pipes, at most limit bytes.
func newOutput(s sandbox.Streams, stdout, stderr *os.File, limit int64) *pipedOutput {
	d := sandbox.NewDelivery(s, limit)
	return &pipedOutput{Delivery: d, stdout: stream{stdout, d.Stdout}, stderr: stream{stderr, d.Stderr}, done: make(chan struct{})}
}

// Start begins to read. It ends when the pipes do, or are closed.
func (o *pipedOutput) Start() {
	var wg sync.WaitGroup
	for _, s := range []stream{o.stdout, o.stderr} {
		wg.Go(func() { o.copy(s) })
	}
	go func() { wg.Wait(); close(o.done) }()
}

// buffers are of the size of a pipe.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }} //nolint:gochecknoglobals // a pool is shared by its nature

func (o *pipedOutput) copy(s stream) {
	buf, _ := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	conn, err := s.pipe.SyscallConn()
	for err == nil {
		ended := false
		err = conn.Read(func(fd uintptr) bool {
			// Under the lock, so that nothing is between the pipe and the writer
			// while another holder has it.
			o.mu.Lock()
			defer o.mu.Unlock()
			n, err := unix.Read(int(fd), buf[:])
			if n > 0 {
				_, _ = s.to.Write(buf[:n]) // it never fails
			}
			ended = n == 0 || err != nil && err != unix.EAGAIN && err != unix.EINTR
			return n >= 0 && err == nil || ended
		})
		if ended {
			return
		}
	}
}

// drainPause is how often a stream is looked at that does not end with its box.
const drainPause = 20 * time.Millisecond

// Drain waits until everything that an ended box wrote is delivered, and reports
// whether it is. A pipe can stay open: a process can pass it on to one of a peer.
func (o *pipedOutput) Drain(most time.Duration) bool {
	for end := time.Now().Add(most); time.Now().Before(end); {
		select {
		case <-o.done:
			return true
		case <-time.After(drainPause):
		}
		if o.mu.TryLock() { // nothing is being delivered
			if o.stdout.empty() && o.stderr.empty() {
				o.Stop()
				o.mu.Unlock()
				o.close()
				<-o.done
				return true
			}
			o.mu.Unlock()
		}
	}
	return false
}

// empty reports whether nothing waits in a pipe.
func (s stream) empty() bool {
	n := 0
	conn, err := s.pipe.SyscallConn()
	if err == nil {
		_ = conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return err != nil || n == 0
}

// close ends the reading.
func (o *pipedOutput) close() {
	_ = o.stdout.pipe.Close() // it may be closed
	_ = o.stderr.pipe.Close()
}

// Leave ends the reading and waits until the caller's writers are not used any
// more, unless one of them blocks.
func (o *pipedOutput) Leave() {
	o.close()
	sandbox.LeaveWriters(o.done)
}
