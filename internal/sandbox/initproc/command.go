package initproc

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox/wire"
)

// command is one that was started.
type command struct {
	id             uint64
	pid            int
	began          time.Time
	stdin          *os.File // nil without one
	stdout, stderr output

	ended  chan struct{} // closed with result set
	result Result        // without the outputs
}

// output is an output stream of a command. One request sends it.
type output struct {
	r     *os.File // nil if it is not wanted
	limit int64
	taken atomic.Bool
	done  chan struct{} // closed with count set
	count Output
}

// open makes the streams of a command and returns the descriptors that it
// gets, which the caller closes. So it does after an error.
func (c *command) open(s start) (theirs []uintptr, err error) {
	for fd, wanted := range []bool{s.Stdin, s.Stdout, s.Stderr} {
		if !wanted {
			null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return theirs, err
			}
			theirs = append(theirs, uintptr(null))
			continue
		}
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return theirs, err
		}
		mine, its := p[0], p[1]
		if fd == 0 {
			mine, its = its, mine
		}
		theirs = append(theirs, uintptr(its))
		if err := unix.SetNonblock(mine, true); err != nil { // so that it can be given up
			return theirs, errors.Join(err, unix.Close(mine))
		}
		*[]**os.File{&c.stdin, &c.stdout.r, &c.stderr.r}[fd] = os.NewFile(uintptr(mine), "pipe")
	}
	for _, o := range []*output{&c.stdout, &c.stderr} {
		o.limit, o.done = s.Output, make(chan struct{})
		if o.r == nil {
			close(o.done)
		}
	}
	return theirs, nil
}

// execute begins a command, on the thread whose rights it gets.
func (c *command) execute(s start, sys *syscall.SysProcAttr) error {
	files, err := c.open(s)
	if err == nil {
		c.began = time.Now()
		c.pid, err = execute(s.Argv, &syscall.ProcAttr{Dir: s.Dir, Env: s.environment(), Files: files, Sys: sys})
	}
	for _, fd := range files {
		_ = unix.Close(int(fd))
	}
	return err
}

// close gives up the streams of a command that did not start.
func (c *command) close() {
	for _, f := range []*os.File{c.stdin, c.stdout.r, c.stderr.r} {
		_ = f.Close() // does nothing to nil
	}
}

// end takes note of the end of a command and cuts its streams loose from its
// descendants.
func (c *command) end(status unix.WaitStatus, used unix.Rusage) {
	c.result = Result{Duration: time.Since(c.began), ExitCode: status.ExitStatus(), MaxRSS: used.Maxrss << 10,
		User: time.Duration(used.Utime.Nano()), System: time.Duration(used.Stime.Nano())}
	if status.Signaled() {
		c.result.Signal = int(status.Signal())
		c.result.ExitCode = 128 + c.result.Signal
	}
	close(c.ended)
	for _, f := range []*os.File{c.stdin, c.stdout.r, c.stderr.r} {
		_ = f.SetDeadline(time.Unix(1, 0)) // an error means that it is closed or nil
	}
}

// receive copies a request's body to the standard input and closes it.
func (c *command) receive(body io.Reader) {
	if c.stdin != nil {
		_, _ = io.Copy(c.stdin, body) // the command reads no more if this fails
		_ = c.stdin.Close()
	}
}

// send answers a request with the output of a command until that ends.
func (o *output) send(w http.ResponseWriter) {
	if o.r == nil || o.taken.Swap(true) {
		wire.Answer(w, errors.New("the stream is not there to be sent"))
		return
	}
	ctl := http.NewResponseController(w)
	_ = ctl.Flush() // the client waits for the answer's head
	if !o.copy(w, ctl.Flush) {
		// Descendants still hold it. They must not block, or die of SIGPIPE.
		go func() { _, _ = io.Copy(io.Discard, o.r); _ = o.r.Close() }()
	} else {
		_ = o.r.Close()
	}
	close(o.done)
}

// copy copies the output until its end, or until the command's end and all
// that is in the pipe by then. It reports whether the stream has ended.
func (o *output) copy(w io.Writer, flush func() error) (ended bool) {
	buf := make([]byte, copySize)
	for {
		n, err := o.r.Read(buf)
		o.pass(w, buf[:n], flush)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return true
		}
	}
	_ = o.r.SetReadDeadline(time.Time{})
	raw, err := o.r.SyscallConn()
	if err != nil {
		return true
	}
	for left := pipeSize(raw); left > 0; {
		var n int
		var errno error
		err := raw.Read(func(fd uintptr) bool {
			n, errno = unix.Read(int(fd), buf)
			return true
		})
		if errors.Is(errno, unix.EAGAIN) {
			return false
		}
		if err != nil || errno != nil || n == 0 {
			return true
		}
		o.pass(w, buf[:n], flush)
		left -= n
	}
	return false
}

// pipeSize is how much a pipe can hold.
func pipeSize(raw syscall.RawConn) (size int) {
	_ = raw.Control(func(fd uintptr) {
		size, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) // 0 ends the copy
	})
	return size
}

// pass sends what the limit leaves of b and counts all of it. After an error
// the rest of the output is discarded.
func (o *output) pass(w io.Writer, b []byte, flush func() error) {
	n := int(min(int64(len(b)), o.limit-o.count.Bytes))
	if n > 0 {
		_, err := w.Write(b[:n])
		if err == nil {
			err = flush()
		}
		if err != nil {
			o.limit, n = o.count.Bytes, 0
		}
	}
	o.count.Bytes += int64(n)
	o.count.Dropped += int64(len(b) - n)
}

// execute starts a program, looking it up as a shell does: the directories of
// PATH are tried as the command's user.
func execute(argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if strings.Contains(argv[0], "/") {
		return syscall.ForkExec(argv[0], argv, attr)
	}
	path := ""
	for _, v := range attr.Env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	err = unix.ENOENT
	for dir := range strings.SplitSeq(path, ":") {
		pid, e := syscall.ForkExec(cmp.Or(dir, ".")+"/"+argv[0], argv, attr)
		switch {
		case e == nil:
			return pid, nil
		case errors.Is(e, unix.EACCES):
			err = e // unless it is found further on
		case !errors.Is(e, unix.ENOENT) && !errors.Is(e, unix.ENOTDIR):
			return 0, e
		}
	}
	return 0, err
}
