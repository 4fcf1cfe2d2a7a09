package mountns

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"securebench/internal/sandbox/privilege"

	"golang.org/x/sys/unix"
)

// Users are user namespaces with the mapping of an [IDs], one for each sandbox that
// runs.
//
// What the kernel counts by user (pending signals, message queues, inotify, locked
// memory), it counts in a user namespace, up to the limits of the process, and in the
// one above for the user who made the namespace, up to the limits that its maker had.
// So each is made by a user of its own, who does nothing else on the machine: then no
// sandbox takes from another, or from the machine's root. The maker's limits are those
// of this process, which are to be above a sandbox's.
type Users struct {
	makes func() (*os.File, error)

	mu     sync.Mutex
	unused []*os.File
	shares map[*os.File]int // sandboxes that have it
	closed bool
}

// NewUsers returns namespaces with a mapping. A runtime may have to have power over a
// namespace by being its maker: then owned says that this process's own user is the
// maker of all.
func NewUsers(ids *IDs, owned bool) *Users {
	makes := func() (*os.File, error) { return userNamespace(ids.Base, ids.Size) }
	if !owned {
		makes = func() (*os.File, error) { return foreignNamespace(ids.Base, ids.Size) }
	}
	return &Users{makes: makes, shares: map[*os.File]int{}}
}

// Take returns a namespace that no sandbox has. Its path is [NamespacePath].
func (u *Users) Take() (*os.File, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.unused); n > 0 {
		f := u.unused[n-1]
		u.unused = u.unused[:n-1]
		u.shares[f]++
		return f, nil
	}
	f, err := u.makes()
	if err != nil {
		return nil, fmt.Errorf("making a user namespace for a sandbox: %w", err)
	}
	u.shares[f]++
	return f, nil
}

// Share lets one more sandbox have a namespace that was taken.
func (u *Users) Share(f *os.File) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.shares[f]++
}

// Give gives a namespace back in which no process of a sandbox is left. It serves
// another when all that shared it have done so.
func (u *Users) Give(f *os.File) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.shares[f]--; u.shares[f] > 0 {
		return nil
	}
	delete(u.shares, f)
	if u.closed {
		return f.Close()
	}
	u.unused = append(u.unused, f)
	return nil
}

// Close releases what was given back.
func (u *Users) Close() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	var errs []error
	for _, f := range u.unused {
		errs = append(errs, f.Close())
	}
	u.unused = nil
	return errors.Join(errs...)
}

// NamespacePath is where other processes of this machine find a namespace.
func NamespacePath(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// Makers of namespaces are users between those that systems and services give to
// anybody and those of sandboxes.
const (
	firstMaker = 0x7000_0000
	makers     = 0x1000_0000
)

// foreignNamespace returns a user namespace that a user of its own has made.
func foreignNamespace(base, size int) (f *os.File, err error) {
	OnThread(func() {
		if err = becomeMaker(firstMaker + rand.N(makers)); err == nil { //nolint:gosec // two that meet share a count
			f, err = userNamespace(base, size)
		}
	})
	return f, err
}

// becomeMaker makes this thread a user's with all rights of root's.
func becomeMaker(uid int) error {
	own, err := privilege.Permitted()
	if err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	// Real and saved user stay root, so that the thread keeps its capabilities.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
		return fmt.Errorf("becoming user %d: %w", uid, errno)
	}
	if err := privilege.Keep(own); err != nil {
		return fmt.Errorf("taking capabilities back: %w", err)
	}
	return nil
}
