// Package mountns mounts file systems where only this process and its children
// see them: in a mount namespace of one of its threads. What is mounted there ends
// with the last process in the namespace, so a killed parent leaves no mount on
// the host.
package mountns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Namespace is a private mount namespace. It is safe for concurrent use; calls
// are made one after the other.
type Namespace struct {
	calls  chan call
	thread int // its ID

	mu     sync.Mutex
	closed bool
}

// call is a function for the namespace's thread.
type call struct {
	f    func() error
	done chan<- error
}

// ErrClosed is the error of calls after [Namespace.Close].
var ErrClosed = errors.New("the mount namespace is closed")

// New makes a namespace in which an empty tmpfs is mounted at dir, which exists;
// processes with other users' IDs can pass through it, but not list it. The host
// sees nothing of what is mounted in the namespace. What the host unmounts goes
// from the namespace too, so that it is not kept alive here.
func New(dir string) (*Namespace, error) {
	n := &Namespace{calls: make(chan call)}
	ready := make(chan error)
	go OnThread(func() { n.serve(dir, ready) })
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("making a mount namespace: %w", err)
	}
	return n, nil
}

// serve makes its thread the namespace's.
func (n *Namespace) serve(dir string, ready chan<- error) {
	n.thread = unix.Gettid()
	err := enter(dir)
	ready <- err
	if err != nil {
		return
	}
	for c := range n.calls {
		c.done <- c.f()
	}
}

// enter gives this thread a mount namespace with a tmpfs at dir.
func enter(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("cutting it off from the host's: %w", err)
	}
	return Tmpfs{Size: baseSize, Inodes: baseInodes, Mode: 0o711, UID: os.Getuid(), GID: os.Getgid()}.Mount(dir)
}

// Bounds of a namespace's own tmpfs, which holds little files and mount points.
const (
	baseSize   = 256 << 20
	baseInodes = 1 << 20
)

// Do calls f on the namespace's thread: what f mounts, opens and looks up by path
// is what the namespace sees. f must not call Do or Start.
func (n *Namespace) Do(f func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	done := make(chan error)
	n.calls <- call{f, done}
	return <-done
}

// Start starts a command in the namespace.
func (n *Namespace) Start(cmd *exec.Cmd) error { return n.Do(cmd.Start) }

// Close ends the thread. Children that are still in the namespace keep it. It is
// idempotent.
func (n *Namespace) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	close(n.calls)
	return awaitEnd(n.thread)
}

// awaitEnd waits until a thread that has nothing left to do has ended: only then
// are its mounts gone.
func awaitEnd(thread int) error {
	task := "/proc/self/task/" + strconv.Itoa(thread)
	for range threadEndTries {
		if _, err := os.Stat(task); err != nil {
			return nil
		}
		time.Sleep(threadEndPause)
	}
	return fmt.Errorf("the thread of a mount namespace, %d, does not end", thread)
}

const (
	threadEndTries = 20_000
	threadEndPause = time.Millisecond / 2
)
