package initproc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/privilege"
)

// hardening is a step of what init does before it starts anything.
type hardening struct {
	name string
	// rights says that it changes the rights of a thread, before init executes
	// itself again ([privilege.Everywhere]).
	rights bool
	apply  func() error
}

// hardenings are all steps, in their order: executing a program makes it dumpable,
// so that comes after it.
func hardenings(grants privilege.Set) []hardening {
	return []hardening{
		{"setting no_new_privs", true, noNewPrivs},
		{"dropping capabilities", true, func() error { return dropCapabilities(grants) }},
		{"setting the real group", true, hideGroup},
		{"starting threads", false, startThreads},
		{"checking the kernel", false, checkKernel},
		{"ignoring signals", false, ignoreSignals},
		{"closing descriptors on exec", false, closeOnExec},
		{"becoming non-dumpable", false, notDumpable},
	}
}

// takeRights takes the steps that change rights. A sandbox without capabilities
// whose engine has set no_new_privs has none to change.
func takeRights(grants privilege.Set, steps []hardening) error {
	permitted, err := privilege.Permitted()
	if err != nil {
		return err
	}
	bounded, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || permitted == 0 && grants == 0 && bounded == 1 {
		return err
	}
	return privilege.Everywhere(kept(permitted, grants), func() error { return take(steps, true) })
}

// take takes the steps of one kind.
func take(steps []hardening, rights bool) error {
	for _, s := range steps {
		if s.rights != rights {
			continue
		}
		if err := s.apply(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

const processors = 2

// startThreads starts all threads that init will need, since the runtime ends
// the program where the kernel refuses it one, as it does while a command fills
// the process table. Idle threads are kept for ever, and fewer than these can be
// busy at once: as many as run code, and one each for what blocks in the kernel:
// both streams, the poller, the wait for children, the start of a command,
// reading the process table, killing a user's processes, the runtime's monitor
// and its starter of threads.
func startThreads() error {
	runtime.GOMAXPROCS(processors)
	var here, gone sync.WaitGroup
	free := make(chan struct{})
	here.Add(sandbox.InitThreads)
	for range sandbox.InitThreads {
		gone.Go(func() {
			runtime.LockOSThread() // so that the others need threads of their own
			defer runtime.UnlockOSThread()
			here.Done()
			<-free
		})
	}
	here.Wait()
	close(free)
	gone.Wait()
	return nil
}

// checkKernel refuses a setting under which a change of credentials makes a
// process dumpable. A command that is being started shares init's memory.
func checkKernel() error {
	b, err := os.ReadFile("/proc/sys/fs/suid_dumpable")
	if err != nil {
		return err
	}
	if s := string(bytes.TrimSpace(b)); s != "0" && s != "2" {
		return fmt.Errorf("fs.suid_dumpable is %s on the engine's machine: set it to 0 or 2", s)
	}
	return nil
}

func noNewPrivs() error { return privilege.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1) }

const (
	// switching are the capabilities that running commands as other users takes.
	switching privilege.Set = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	// applying are those that changing the sandbox's files takes. Init has them
	// until it starts a command.
	applying privilege.Set = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID
)

// kept are the capabilities that init needs itself or can give, of those that it has.
func kept(permitted, grants privilege.Set) privilege.Set {
	keep := grants
	if permitted.Has(switching) {
		keep |= switching
		if permitted.Has(applying) {
			keep |= applying
		}
	}
	return keep
}

// dropCapabilities takes care that no command gets any capability of init's
// unasked: a program that root executes gets what the bounding set holds, any
// other what the ambient set holds. With grants the bounding set cannot be empty; then root
// stops being special for good.
func dropCapabilities(grants privilege.Set) error {
	permitted, err := privilege.Permitted()
	if err != nil {
		return err
	}
	if !permitted.Has(grants) || grants != 0 && !permitted.Has(switching) {
		return errors.New("the sandbox has fewer capabilities than its commands can be given")
	}
	if permitted == 0 {
		return nil // no_new_privs sees to it that none is gained
	}
	const noRoot, noRootLocked = 1 << 0, 1 << 1 // SECBIT_NOROOT and its lock
	bits := uintptr(0)
	if grants != 0 {
		bits = noRoot | noRootLocked
	}
	if err := privilege.Prctl(unix.PR_SET_SECUREBITS, bits); err != nil {
		return fmt.Errorf("setting the securebits, which takes CAP_SETPCAP: %w", err)
	}
	return privilege.Bound(grants)
}

// privateGroup is a group that no command can have. It is the last that a sandbox
// has on engines that give it users of its own.
const privateGroup = 1<<31 - 2

// hideGroup gives init a real group id of its own where it can. The kernel lets a
// process change the limits of another only if all ids are equal. A saved one would
// not outlast the execution of a program.
func hideGroup() error {
	able, err := switchesUsers()
	if err != nil || !able {
		return err
	}
	return setThreadGroup(privateGroup)
}

// setThreadGroup changes the real group of this thread.
func setThreadGroup(gid uintptr) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, ^uintptr(0), ^uintptr(0)); errno != 0 {
		return errno
	}
	return nil
}

// switchesUsers reports whether init can run commands as other users.
func switchesUsers() (bool, error) {
	permitted, err := privilege.Permitted()
	return permitted.Has(switching), err
}

// ignoreSignals ignores every signal, since the runtime takes most for a fault
// of its own, or ends. The default action would not do: the kernel does not take
// it for a first process, unless a thread of that has the signal blocked
// for a moment, as the runtime does. Exempt are signals whose handlers in the
// runtime cannot end init, and those whose default action ends nothing. In a
// child the runtime gives the signals that it handles their default action: 32
// and 34 stay ignored, which makes a difference only to a command that neither
// catches nor awaits them.
func ignoreSignals() error {
	if os.Getpid() != 1 {
		return errors.New("this process is not the first of its sandbox")
	}
	const exempt = 1<<unix.SIGCHLD | 1<<unix.SIGURG | 1<<unix.SIGPIPE | 1<<33 | // caught and harmless
		1<<unix.SIGCONT | 1<<unix.SIGTSTP | 1<<unix.SIGTTIN | 1<<unix.SIGTTOU |
		1<<unix.SIGKILL | 1<<unix.SIGSTOP // cannot be set
	action := [4]uintptr{1} // struct sigaction: SIG_IGN, no flags, no mask
	for sig := uintptr(1); sig <= 64; sig++ {
		if sig < 64 && exempt>>sig&1 == 1 {
			continue
		}
		_, _, errno := unix.Syscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return fmt.Errorf("signal %d: %w", sig, errno)
		}
	}
	return nil
}

func closeOnExec() error {
	return unix.CloseRange(3, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC)
}

func notDumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	// Prctl does not return the value.
	if v, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0); errno != 0 || v != 0 {
		return fmt.Errorf("the process stays dumpable (%d)", v)
	}
	return nil
}

// takeStreams moves standard input and output out of the reach of children,
// which get descriptors 0 to 2 of their own, and leaves null devices there.
func takeStreams() (in, out *os.File, err error) {
	var fds [2]int
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for i := range fds {
		if err == nil {
			fds[i], err = unix.FcntlInt(uintptr(i), unix.F_DUPFD_CLOEXEC, 3)
		}
		if err == nil {
			err = unix.Dup3(null, i, unix.O_CLOEXEC)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("taking the standard streams: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "stdin"), os.NewFile(uintptr(fds[1]), "stdout"), nil
}
