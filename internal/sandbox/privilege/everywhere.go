package privilege

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// changed is what this program is called once [Everywhere] has executed it.
const changed = "securebench-changed"

// Everywhere changes the rights of one thread and executes this program again on
// it, with the same arguments and environment, so that every thread begins with
// them. It returns with an error, or at once where it was called before. change
// gives up rights on the calling thread by plain system calls; the program keeps
// what it then leaves in keep, as its ambient set.
func Everywhere(keep Set, change func() error) error {
	if os.Args[0] == changed { //nolint:forbidigo // it is what this package called it
		return nil
	}
	runtime.LockOSThread() // for good: after an error the thread is half changed
	permitted, err := Permitted()
	if err != nil {
		return err
	}
	// What is to be inherited must be in the bounding set, which can become empty.
	if err := set(permitted, keep&permitted); err != nil {
		return fmt.Errorf("marking capabilities to be inherited: %w", err)
	}
	if err := change(); err != nil {
		return err
	}
	if err := hand(keep & permitted); err != nil {
		return fmt.Errorf("handing capabilities to the program: %w", err)
	}
	err = unix.Exec("/proc/self/exe", append([]string{changed}, os.Args[1:]...), os.Environ()) //nolint:forbidigo // what it was given
	return fmt.Errorf("executing the program again: %w", err)
}

// hand makes a set all that the next program that this thread executes has. It is
// inheritable already.
func hand(s Set) error {
	if err := set(s, s); err != nil {
		return err
	}
	for _, c := range s.Numbers() {
		if _, _, errno := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0, 0); errno != 0 {
			return fmt.Errorf("capability %d: %w", c, errno)
		}
	}
	return nil
}
