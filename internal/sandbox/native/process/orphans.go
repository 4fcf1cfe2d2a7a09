package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/attended"
	"securebench/internal/sandbox/cgroup"
)

// A runtime leaves processes to this one, which adopts orphans: the first process of a
// container, and of crun the process that has made it, which leaves its session first
// and ends shortly after the runtime has. This process has one family, however many
// engines it has: whose an orphan is cannot always be told.

// adopted are the first processes of sandboxes that are waited for.
var adopted family //nolint:gochecknoglobals // a process has its children once

// family knows children of this process.
type family struct {
	mu     sync.Mutex
	known  map[int]bool
	starts int  // of sandboxes that are in progress
	lost   bool // a first process may be, since such a start failed
}

// Starting notes that a runtime is about to start a sandbox. The function that it
// returns notes the end of that, after [Adopt], and whether it failed. A runtime that was
// killed may have said of no process that it is the first one, and one that has ended
// is in no group: it is known by leading a session, as nothing else that this process
// adopts does, once no start is in progress that it could belong to. Then it is reaped.
func Starting() (ended func(failed bool)) {
	adopted.mu.Lock()
	defer adopted.mu.Unlock()
	adopted.starts++
	return adopted.started
}

func (f *family) started(failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts--
	f.lost = f.lost || failed
	if f.starts > 0 || !f.lost {
		return
	}
	f.lost = false
	for _, pid := range children() {
		if p := look(pid); !f.known[pid] && p.state == 'Z' && p.session == pid {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG|unix.WALL, nil) // it may have been reaped
		}
	}
}

func (f *family) add(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[int]bool{}
	}
	f.known[pid] = true
}

func (f *family) remove(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, pid)
}

func (f *family) has(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[pid]
}

// orphanTimeout bounds the wait for orphans to end. They do at once, since what
// they wait for is gone.
const orphanTimeout = 500 * time.Millisecond

// ReapOrphans reaps the processes that a runtime which failed or was killed was making
// first processes of, and those that have made one. Nothing else that this process
// starts looks like them. Others that do are about to become the command of their
// sandbox.
func ReapOrphans() {
	for end := time.Now().Add(orphanTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left := 0
		for _, pid := range children() {
			p := look(pid)
			if adopted.has(pid) || !p.unborn() && !p.maker(pid) {
				continue
			}
			if p.state != 'Z' || !adopted.reap(pid) {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
}

// ReapMakers reaps the processes that have made a first process and ended.
func ReapMakers() {
	for _, pid := range children() {
		if adopted.has(pid) {
			continue
		}
		if p := look(pid); p.state == 'Z' && p.maker(pid) {
			adopted.reap(pid)
		}
	}
}

// Await waits until a runtime that leaves its container has ended, and returns how. It
// kills the runtime with its helpers when ctx ends or closing is closed: then err says so.
func Await(ctx context.Context, closing <-chan struct{}, cmd *exec.Cmd) (ended, err error) {
	wait := make(chan error, 1)
	go func() { wait <- cmd.Wait() }()
	select {
	case ended := <-wait:
		return ended, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-closing:
		err = os.ErrClosed
	}
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // it may have ended
	return <-wait, err
}

// Clear ends what is left of a runtime, which leads a process group, and of what it has
// started in a control group, and reaps those that became children of this process. The
// argument is that of killRuntime; known lists processes that the runtime has named.
func Clear(ctx context.Context, argument string, runtime int, group *cgroup.Group, known func() []int) error {
	if err := killRuntime(ctx, argument); err != nil {
		return err
	}
	// What is frozen starts nothing more, so that the list is complete. A group
	// that is not there yet has nobody in it.
	freeze, stop := attended.WithTimeout(ctx, freezeTimeout)
	_ = group.Freeze(freeze)
	stop()
	left, _ := group.Processes() // what is killed is decided by Kill
	left = append(left, known()...)
	slices.Sort(left)
	left = slices.Compact(left)
	if err := group.Kill(ctx); err != nil {
		return err
	}
	for _, pid := range append(left, -runtime) {
		if err := reap(ctx, pid); err != nil {
			return err
		}
	}
	ReapOrphans()
	return nil
}

// freezeTimeout bounds the wait for a group to freeze.
const freezeTimeout = 500 * time.Millisecond

// killRuntime kills what is left of a runtime that had been given an argument which no
// other process has, and reaps it.
func killRuntime(ctx context.Context, argument string) error {
	for {
		left := false
		for _, pid := range children() {
			found, err := killOrphan(ctx, pid, argument)
			if err != nil {
				return fmt.Errorf("killing what is left of a runtime: %w", err)
			}
			left = left || found
		}
		if !left {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("killing what is left of a runtime: %w", context.Cause(ctx))
		}
	}
}

// killOrphan kills and reaps an orphan with an argument. It reports whether there can be
// more: a process leaves its own children to this one at its end, after it has lost its
// arguments.
func killOrphan(ctx context.Context, pid int, argument string) (found bool, err error) {
	if adopted.has(pid) {
		return false, nil
	}
	list := arguments(pid)
	if slices.Contains(list, argument) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return false, err
		}
		return true, reap(ctx, pid)
	}
	p := look(pid)
	if len(list) > 0 || !p.maker(pid) && !p.unborn() {
		return false, nil
	}
	if p.state != 'Z' || !adopted.reap(pid) {
		time.Sleep(time.Millisecond / 2) // it is about to be one
	}
	return true, nil
}

// Kill kills the processes that are called with certain arguments, none of them a child
// of this process, and waits until they are gone. It leaves those of other pid
// namespaces only: a process chooses its arguments, also one in a sandbox.
func Kill(ctx context.Context, is func(arguments []string) bool) error {
	for {
		left, err := killOnce(is)
		if left == 0 || err != nil {
			return err
		}
		if err := attended.Pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("%d processes: %w", left, err)
		}
	}
}

// killOnce kills those that there are now, and counts them.
func killOnce(is func(arguments []string) bool) (left int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0, err
	}
	ours := func(pid int) bool {
		if !is(arguments(pid)) {
			return false
		}
		namespace, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid")
		return err == nil && namespace == own // one that cannot be read has ended, or is another user's
	}
	for _, e := range entries {
		pid, isPID := strconv.Atoi(e.Name())
		if isPID != nil || !ours(pid) {
			continue
		}
		left++
		err = errors.Join(err, kill(pid, ours))
	}
	return left, err
}

// kill kills a process unless its ID has become another one's.
func kill(pid int, is func(pid int) bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // it has ended
	}
	defer unix.Close(fd)
	if !is(pid) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	return nil
}

// arguments are what a process is called with; none if it has ended.
func arguments(pid int) (list []string) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil
	}
	if len(text) == 0 {
		return nil
	}
	for a := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		list = append(list, string(a))
	}
	return list
}

// reap reaps a child that has ended, unless it is waited for.
func (f *family) reap(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[pid] {
		return true
	}
	_, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WALL, nil)
	return err == nil
}

// children lists the children of this process that it did not start itself: orphans
// become those of its first thread. That one may have started others as well.
func children() (pids []int) {
	text, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children")
	if err != nil {
		return nil
	}
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// seen is what the kernel says of a process: proc_pid_stat(5).
type seen struct {
	name    string
	state   byte
	session int
}

// unborn reports whether it is what a runtime turns into the command of a sandbox.
func (s seen) unborn() bool {
	return strings.HasPrefix(s.name, "runc:[") || strings.HasPrefix(s.name, "crun") && s.session != ownSession()
}

// maker reports whether it is what crun leaves behind: a process of a session that is
// neither this process's nor its own, as no first process of a container is.
func (s seen) maker(pid int) bool {
	return s.session != pid && s.session != ownSession() && s.session != 0
}

func ownSession() int {
	session, err := unix.Getsid(0)
	if err != nil {
		return 0 // it cannot fail
	}
	return session
}

// look looks at a process. A process chooses its name, which is in parentheses.
func look(pid int) seen {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	begin, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
	if err != nil || begin < 0 || end < begin {
		return seen{}
	}
	fields := strings.Fields(string(text[end+1:])) // state, parent, group, session
	if len(fields) < 4 || len(fields[0]) != 1 {
		return seen{}
	}
	session, err := strconv.Atoi(fields[3])
	if err != nil {
		return seen{}
	}
	return seen{string(text[begin+1 : end]), fields[0][0], session}
}
