package holder

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/privilege"
)

// Start is the helper's program: it gives up what it does not need of its rights,
// and serves the tree below root as [Serve] does. With an owner of the form
// UID:GID it takes on that user's rights and keeps one of root's, to read what
// belongs to others; it has to be started as root with only CAP_DAC_READ_SEARCH then,
// and to become another user with CAP_SETUID and CAP_SETGID as well. With "" it has the
// rights it was started with.
func Start(root, owner string, in io.Reader, out io.Writer) error {
	if owner != "" {
		var u sandbox.User
		if _, err := fmt.Sscanf(owner+"\n", "%d:%d\n", &u.UID, &u.GID); err != nil || u.UID < 0 || u.GID < 0 {
			return fmt.Errorf("the owner %q is not of the form UID:GID", owner)
		}
		if err := become(u); err != nil {
			return fmt.Errorf("taking on the rights of user %s: %w", owner, err)
		}
	}
	return Serve(root, in, out)
}

// reading is the right to read everything.
const reading privilege.Set = 1 << unix.CAP_DAC_READ_SEARCH

// become makes this process one of a user's that may read everything.
func become(u sandbox.User) error {
	if u != (sandbox.User{}) {
		return privilege.Everywhere(reading, func() error { return setThreadUser(u) })
	}
	permitted, err := privilege.Permitted()
	if err == nil && permitted != reading {
		err = fmt.Errorf("root has other capabilities than CAP_DAC_READ_SEARCH (%#x)", permitted)
	}
	return err
}

// setThreadUser makes this thread a user's, and leaves it its capabilities.
func setThreadUser(u sandbox.User) error {
	if err := privilege.Prctl(unix.PR_SET_KEEPCAPS, 1); err != nil {
		return err
	}
	uid, gid := uintptr(u.UID), uintptr(u.GID)
	for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS, 0, 0, 0}, {unix.SYS_SETRESGID, gid, gid, gid}, {unix.SYS_SETRESUID, uid, uid, uid}} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return errno
		}
	}
	return nil
}
