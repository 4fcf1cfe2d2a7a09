package holder

import (
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/privilege"
)

// Start is the helper's program: it gives up what it does not need of its rights,
// and serves the tree below root as [Serve] does. With an owner of the form
// UID:GID it takes on that user's rights and keeps one of root's, to read what
// belongs to others; it has to be started as root with CAP_DAC_READ_SEARCH then,
// and to become another user with CAP_SETUID and CAP_SETGID. With "" it has the
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

// become makes this process one of a user's that may read everything.
func become(u sandbox.User) error {
	if u != (sandbox.User{}) {
		if err := privilege.Prctl(unix.PR_SET_KEEPCAPS, 1); err != nil {
			return err
		}
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setresgid(u.GID, u.GID, u.GID); err != nil {
			return err
		}
		if err := syscall.Setresuid(u.UID, u.UID, u.UID); err != nil {
			return err
		}
	}
	return privilege.Keep(1 << unix.CAP_DAC_READ_SEARCH)
}
