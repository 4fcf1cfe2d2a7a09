package initproc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

// hardening is a step of what init does before it starts anything.
type hardening struct {
	name  string
	apply func() error
}

// hardenings are all steps, in their order: changes of credentials can make a
// process dumpable again, so that comes after them.
func hardenings() []hardening {
	return []hardening{
		{"starting threads", startThreads},
		{"checking the kernel", checkKernel},
		{"setting no_new_privs", noNewPrivs},
		{"dropping capabilities", dropCapabilities},
		{"setting the saved group", hideGroup},
		{"ignoring signals", ignoreSignals},
		{"closing descriptors on exec", closeOnExec},
		{"becoming non-dumpable", notDumpable},
	}
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

// onAllThreads makes a prctl call on every thread, since credentials belong to
// threads.
func onAllThreads(option, arg uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, option, arg, 0); errno != 0 {
		return errno
	}
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

func noNewPrivs() error { return onAllThreads(unix.PR_SET_NO_NEW_PRIVS, 1) }

// switching are the capabilities that running commands as other users takes.
const switching = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL

// dropCapabilities leaves init what it needs to switch users, or nothing, and
// takes care that no command gets even that: a program that root executes gets
// what the bounding set holds, any other what the ambient set holds.
func dropCapabilities() error {
	permitted, err := permittedCapabilities()
	if err != nil || permitted == 0 {
		return err // without any, no_new_privs sees to it that none is gained
	}
	if err := onAllThreads(unix.PR_SET_SECUREBITS, 0); err != nil {
		return fmt.Errorf("clearing the securebits, which takes CAP_SETPCAP: %w", err)
	}
	if err := onAllThreads(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL); err != nil {
		return fmt.Errorf("clearing the ambient set: %w", err)
	}
	for c := uintptr(0); c < 64; c++ {
		err := onAllThreads(unix.PR_CAPBSET_DROP, c)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel has no more
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d from the bounding set: %w", c, err)
		}
	}
	keep := permitted & switching
	if keep != switching {
		keep = 0
	}
	return setCapabilities(keep)
}

type capabilities struct {
	header unix.CapUserHeader
	data   [2]unix.CapUserData
}

func permittedCapabilities() (uint64, error) {
	c := capabilities{header: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}}
	if err := unix.Capget(&c.header, &c.data[0]); err != nil {
		return 0, err
	}
	return uint64(c.data[0].Permitted) | uint64(c.data[1].Permitted)<<32, nil
}

// setCapabilities makes keep the permitted and effective set of every thread,
// and empties the inheritable one.
func setCapabilities(keep uint64) error {
	c := &capabilities{header: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}}
	for i := range c.data {
		half := uint32(keep >> (32 * i))
		c.data[i] = unix.CapUserData{Effective: half, Permitted: half}
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&c.header)), uintptr(unsafe.Pointer(&c.data[0])), 0)
	runtime.KeepAlive(c)
	if errno != 0 {
		return errno
	}
	return nil
}

// privateGroup is a group that no command can have.
const privateGroup = maxID - 1

// hideGroup gives init a saved group id of its own where it can. The kernel
// lets a process change the limits of another only if all ids are equal.
func hideGroup() error {
	able, err := switchesUsers()
	if err != nil || !able {
		return err
	}
	return syscall.Setresgid(-1, -1, privateGroup)
}

// switchesUsers reports whether init can run commands as other users.
func switchesUsers() (bool, error) {
	permitted, err := permittedCapabilities()
	return permitted&switching == switching, err
}

// ignoreSignals ignores every signal, since the runtime takes most for a fault
// of its own, or ends. The default action would not do: the kernel does not take
// it for a first process, but for one of which a thread has the signal blocked
// for a moment, as the runtime does. Exempt are signals whose handlers in the
// runtime cannot end init, and those whose default action ends nothing. In a
// child the runtime gives the signals that it handles their default action: 32
// and 34 stay ignored, which makes a difference only to a command that neither
// catches nor awaits them.
func ignoreSignals() error {
	if os.Getpid() != 1 {
		return errors.New("init is not the first process of its sandbox")
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
