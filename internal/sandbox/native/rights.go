package native

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/privilege"
)

// asUser calls f on a thread of its own that has the file rights of a user and no
// capabilities, except for reading everything if that is asked for, and for which root
// is the root of all paths. It says on ready whether f is called. The thread ends
// with f.
func asUser(u sandbox.User, readAll bool, root *os.Root, ready chan<- error, f func() error) error {
	var err error
	mountns.OnThread(func() {
		if err = confine(root); err == nil {
			err = become(u, readAll)
		}
		ready <- err
		if err == nil {
			err = f()
		}
	})
	return err
}

// confine makes a folder the root of only this thread, for good: a path that leaves
// the folder, by whatever flaw, leads to nothing of the host's. A user's rights do
// not ensure that: the owner of a tree can be root.
func confine(root *os.Root) error {
	_ = time.Local.String() // read from the host's files now, not from a sandbox's later
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leaving the folders of the other threads: %w", err)
	}
	if err := unix.Fchdir(int(dir.Fd())); err != nil {
		return fmt.Errorf("entering a tree: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("making a tree the root: %w", err)
	}
	return nil
}

// become takes on the rights of a user only on this thread. The wrappers of the
// standard library would change every thread.
func become(u sandbox.User, readAll bool) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("leaving groups: %w", errno)
	}
	// They report the former ID, and change nothing if they may not.
	if _, err := unix.SetfsgidRetGid(u.GID); err != nil {
		return fmt.Errorf("becoming group %d: %w", u.GID, err)
	}
	if _, err := unix.SetfsuidRetUid(u.UID); err != nil {
		return fmt.Errorf("becoming user %d: %w", u.UID, err)
	}
	var keep privilege.Set
	if readAll {
		keep = 1 << unix.CAP_DAC_READ_SEARCH
	}
	if err := privilege.Keep(keep); err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	gid, err1 := unix.SetfsgidRetGid(u.GID)
	uid, err2 := unix.SetfsuidRetUid(u.UID)
	if err1 != nil || err2 != nil || uid != u.UID || gid != u.GID {
		return fmt.Errorf("this process may not act as user %d:%d", u.UID, u.GID)
	}
	return nil
}
