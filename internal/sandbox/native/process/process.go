// Package process follows the first processes of sandboxes: as children of this
// process, which adopts them when their runtime ends.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/attended"
)

// Process is the first process of a container, a child of this process.
type Process struct {
	PID    int
	Began  time.Time
	handle *os.File // a pidfd, nil if the runtime stays and is this process
	// trusted says that it is our init, which asks for no signal.
	trusted bool
	exit    chan Exit
	done    chan struct{}

	held   sync.RWMutex // while the ID is in use
	reaped bool         // the ID is nobody's, or another process's
}

// Exit is how a process ended.
type Exit struct {
	Status unix.WaitStatus
	Err    error
	At     time.Time
	// Own says that the kernel may have killed it for what it asked for itself.
	Own bool
}

// Exit gets how the process ended, once.
func (p *Process) Exit() <-chan Exit { return p.exit }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Adopt takes over the first process of a container, which became a child of this
// process when its runtime ended, or is about to. trusted says that it is our init.
func Adopt(pid int, trusted bool) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("opening the sandbox's first process: %w", err)
	}
	p := &Process{PID: pid, handle: os.NewFile(uintptr(fd), "pidfd"), trusted: trusted, Began: time.Now(), exit: make(chan Exit, 1), done: make(chan struct{})}
	adopted.add(pid)
	go func() { p.wait(); adopted.remove(pid) }()
	return p, nil
}

// wait waits for the end and reaps the process.
func (p *Process) wait() {
	x := Exit{}
	conn, err := p.handle.SyscallConn()
	if err == nil {
		var failed error
		err = conn.Read(func(fd uintptr) (over bool) {
			over, failed = ended(int(fd))
			return over
		})
		err = errors.Join(err, failed)
	}
	x.At = time.Now()
	x.Own = p.killedItself()
	if err == nil {
		x.Status, err = p.reap()
	}
	if err != nil {
		x.Err = fmt.Errorf("waiting for the sandbox's first process: %w", err)
	}
	_ = p.handle.Close() // nothing was written
	close(p.done)
	p.exit <- x
}

// ended looks whether a process has ended, which need not be a child of this one.
func ended(fd int) (over bool, err error) {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
	for {
		// An interrupted call must be made again: the end is told only once.
		n, err := unix.Poll(look, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0 || err != nil, err
		}
	}
}

// Hold keeps the process's ID from becoming another process's, until release. It
// reports whether the process has its ID still.
func (p *Process) Hold() (release func(), ok bool) {
	p.held.RLock()
	if p.reaped || p.Ended() {
		p.held.RUnlock()
		return nil, false
	}
	return p.held.RUnlock, true
}

// leaveTimeout bounds the wait for the parent of a process that has ended to leave it to
// this process. On a busy machine it can be long until a parent that is about to end has.
const leaveTimeout = 30 * time.Second

// reap takes the status of the process, which has ended. It may have to wait until it is
// this process's child: crun's last process, which is the parent at first, ends a moment
// after the runtime.
func (p *Process) reap() (status unix.WaitStatus, err error) {
	p.held.Lock()
	defer p.held.Unlock()
	p.reaped = true
	for end := time.Now().Add(leaveTimeout); ; time.Sleep(time.Millisecond) {
		_, err = unix.Wait4(p.PID, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.ECHILD) || time.Now().After(end) || p.gone():
			return status, err
		}
	}
}

// gone reports whether the process was reaped.
func (p *Process) gone() bool {
	return errors.Is(unix.Kill(p.PID, 0), unix.ESRCH)
}

// adoption is how long after its start a process can be killed by what it asked
// for before: a signal at the end of its parent, which is the runtime then.
const adoption = 100 * time.Millisecond

// killedItself reports whether the process, which has ended and is not reaped, made
// the kernel kill it: with a limit on its time, or at the end of its parent.
func (p *Process) killedItself() bool {
	var ours unix.Rlimit
	its, err := maxTime(p.PID)
	limited := err == nil && unix.Getrlimit(unix.RLIMIT_CPU, &ours) == nil && its < ours.Max
	return limited || !p.trusted && time.Since(p.Began) < adoption
}

// maxTime is the hard limit on a process's time in seconds. To ask the kernel for it by
// prlimit takes power over the user namespace.
func maxTime(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits") //nolint:gosec // the kernel's
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Max cpu time "); ok {
			if f := strings.Fields(rest); len(f) > 1 && f[1] != "unlimited" {
				return strconv.ParseUint(f[1], 10, 64)
			}
		}
	}
	return unix.RLIM_INFINITY, nil
}

// Signal sends a signal unless the process has ended.
func (p *Process) Signal(s unix.Signal) error {
	if p.handle == nil {
		return nil
	}
	conn, err := p.handle.SyscallConn()
	if err == nil {
		var failed error
		err = conn.Control(func(fd uintptr) { failed = unix.PidfdSendSignal(int(fd), s, nil, 0) })
		err = errors.Join(err, failed)
	}
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Foreground follows a runtime that stays, whose exit code is the command's.
func Foreground(cmd *exec.Cmd) *Process {
	p := &Process{PID: cmd.Process.Pid, Began: time.Now(), exit: make(chan Exit, 1), done: make(chan struct{})}
	go func() {
		err := cmd.Wait()
		x := Exit{At: time.Now(), Own: true}
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			x.Err = fmt.Errorf("waiting for the runtime: %w", err)
		} else if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
			x.Status = unix.WaitStatus(ws)
		}
		close(p.done)
		p.exit <- x
	}()
	return p
}

// reap waits until a process that was killed, or every one of a process group, is
// gone: its parent may still be about to leave it to this process.
func reap(ctx context.Context, pid int) error {
	for {
		_, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			return nil
		}
		if err := attended.Pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("reaping process %d: %w", pid, err)
		}
	}
}

// Stopped reports whether a signal has stopped the process.
func (p *Process) Stopped() bool {
	return look(p.PID).state == 'T'
}
