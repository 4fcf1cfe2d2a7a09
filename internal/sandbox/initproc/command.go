package initproc

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// command is one that was started.
type command struct {
	id     uint64
	pid    int
	began  time.Time
	stdin  *os.File // nil without one
	stdout *output
	stderr *output

	ended  chan struct{} // closed with report set
	report report        // without the outputs
}

// output is an output stream of a command. One request sends it.
type output struct {
	r     *os.File // nil if it is not wanted
	limit int64
	taken atomic.Bool
	done  chan struct{} // closed with count set
	count Output
}

// end takes note of the end of a command and cuts its streams loose from its
// descendants.
func (c *command) end(status unix.WaitStatus, used unix.Rusage) {
	c.report = report{Duration: int64(time.Since(c.began)), User: used.Utime.Nano(), System: used.Stime.Nano(),
		MaxRSS: used.Maxrss << 10}
	if status.Signaled() {
		c.report.Signal = int(status.Signal())
	} else {
		c.report.Exit = status.ExitStatus()
	}
	close(c.ended)
	past := time.Unix(1, 0)
	// These cannot fail on a pipe that is open, and need not on one that is not.
	if c.stdin != nil {
		_ = c.stdin.SetWriteDeadline(past)
	}
	for _, o := range []*output{c.stdout, c.stderr} {
		if o.r != nil {
			_ = o.r.SetReadDeadline(past)
		}
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
		answer(w, errors.New("the stream is not there to be sent"))
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

// newOutput returns an output stream and the end that the command gets.
func newOutput(wanted bool, limit int64, null int) (*output, int, error) {
	o := &output{limit: limit, done: make(chan struct{})}
	if !wanted {
		close(o.done)
		return o, null, nil
	}
	r, w, err := pipe()
	if err != nil {
		return nil, null, err
	}
	o.r, err = ownEnd(r)
	return o, w, err
}

func pipe() (r, w int, err error) {
	var p [2]int
	err = unix.Pipe2(p[:], unix.O_CLOEXEC)
	return p[0], p[1], err
}

// ownEnd makes the end of a pipe that init keeps one that can be given up.
func ownEnd(fd int) (*os.File, error) {
	err := unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "pipe"), err
}

// execute starts a program, looking it up as a shell does: the directories of
// PATH are tried as the command's user.
func execute(argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if strings.Contains(argv[0], "/") {
		return syscall.ForkExec(argv[0], argv, attr)
	}
	err = unix.ENOENT
	for _, dir := range strings.Split(variable(attr.Env, "PATH"), ":") {
		if dir == "" {
			dir = "."
		}
		pid, e := syscall.ForkExec(dir+"/"+argv[0], argv, attr)
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

// variable returns the last value of a variable.
func variable(env []string, name string) (value string) {
	for _, v := range env {
		if n, x, ok := strings.Cut(v, "="); ok && n == name {
			value = x
		}
	}
	return value
}
