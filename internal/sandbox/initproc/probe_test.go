package initproc

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/privilege"
)

// TestMain lets this test's binary be what it puts into sandboxes, too: an
// init, with or without some of its protection, and the attacks on it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case "sandbox-init":
			err = startInit(os.Args[2:])
		case "bare-init":
			err = bareInit()
		case "probe":
			err = probes()[os.Args[2]]()
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// startInit is an init with the grants of an argument that begins with
// "--grant=", and without the steps that the others name.
func startInit(args []string) error {
	var grants privilege.Set
	for _, arg := range args {
		if names, ok := strings.CutPrefix(arg, "--grant="); ok {
			for name := range strings.SplitSeq(names, ",") {
				c, err := privilege.Of(sandbox.Capability(name))
				if err != nil {
					return err
				}
				grants |= c
			}
		}
	}
	return serve(grants, weakened(grants, args))
}

// weakened returns the hardening without the named steps. The name "leak"
// stands for a descriptor that init was given and that leads to its stream.
func weakened(grants privilege.Set, names []string) (steps []hardening) {
	for _, h := range hardenings(grants) {
		if h.name == "closing descriptors on exec" && slices.Contains(names, "leak") {
			steps = append(steps, hardening{"leak", false, func() error { _, err := unix.Dup(4); return err }})
		}
		if !slices.Contains(names, h.name) {
			steps = append(steps, h)
		}
	}
	return steps
}

// probes are the attacks from inside a sandbox, by name. Nil means that the
// attack has succeeded.
func probes() map[string]func() error {
	open := func(path string, flags int) func() error {
		return func() error {
			fd, err := unix.Open(path, flags, 0)
			if err == nil {
				_, err = unix.Read(fd, make([]byte, 1))
			}
			return err
		}
	}
	link := func(path string) func() error {
		return func() error { _, err := os.Readlink(path); return err }
	}
	return map[string]func() error{
		"ptrace": func() error {
			const seize = 0x4206
			return errnoOf(unix.Syscall6(unix.SYS_PTRACE, seize, 1, 0, 0, 0, 0))
		},
		"mem":     openMemory,
		"maps":    open("/proc/1/maps", unix.O_RDONLY),
		"environ": open("/proc/1/environ", unix.O_RDONLY),
		"exe":     link("/proc/1/exe"),
		"cwd":     link("/proc/1/cwd"),
		"fd":      func() error { return eachDescriptor(func(p string) error { _, err := os.Readlink(p); return err }) },
		"forge": func() error {
			return eachDescriptor(func(p string) error {
				if to, err := os.Readlink(p); err != nil || !strings.HasPrefix(to, "pipe:") {
					return cmp.Or(err, errors.New("it leads nowhere"))
				}
				fd, err := unix.Open(p, unix.O_WRONLY|unix.O_NONBLOCK, 0)
				if err == nil {
					_, err = unix.Write(fd, []byte(strings.Repeat("forged frames ", 1000)))
				}
				return err
			})
		},
		"process_vm_readv": readMemory,
		"pidfd_getfd": func() error {
			pidfd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(pidfd, 4, 0)
			return err
		},
		"prlimit": func() error {
			return unix.Prlimit(1, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil)
		},
		"signals":      sendSignals,
		"all threads":  changeAllThreads,
		"none":         func() error { return nil },
		"descriptors":  foreignDescriptors,
		"capabilities": anyCapability,
		"forkbomb":     forkBomb,
		"escape":       escape,
		"stopstorm":    stopStorm,
	}
}

func errnoOf(_, _ uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func openMemory() error {
	_, err := unix.Open("/proc/1/mem", unix.O_RDWR, 0)
	return err
}

// readMemory reads where this program, which is the same one, has its code.
func readMemory() error {
	code := **(**uintptr)(unsafe.Pointer(&[]func() error{readMemory}[0]))
	buf := make([]byte, 8)
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	_, err := unix.ProcessVMReadv(1, local, []unix.RemoteIovec{{Base: code, Len: 8}}, 0)
	return err
}

// eachDescriptor succeeds if f does for any descriptor of the first process.
func eachDescriptor(f func(path string) error) error {
	err, done := errors.New("no descriptor"), false
	for fd := range 64 {
		e := f("/proc/1/fd/" + strconv.Itoa(fd))
		if e != nil && !errors.Is(e, unix.ENOENT) {
			err = e
		}
		done = done || e == nil
	}
	if done {
		return nil
	}
	return err
}

// sendSignals sends init and its threads all signals in all ways, and often:
// some do harm only while a thread has them blocked for a moment.
func sendSignals() error {
	threads, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return err
	}
	var info [128]byte
	*(*int32)(unsafe.Pointer(&info[8])) = -1 // si_code: SI_QUEUE
	for n := range 64 * 500 {
		sig := n%64 + 1
		_ = unix.Kill(1, syscall.Signal(sig))
		*(*int32)(unsafe.Pointer(&info[0])) = int32(sig)
		_, _, _ = unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(sig), uintptr(unsafe.Pointer(&info)))
		for _, thread := range threads {
			tid, _ := strconv.Atoi(thread.Name())
			_ = unix.Tgkill(1, tid, syscall.Signal(sig))
			_, _, _ = unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, 1, uintptr(tid), uintptr(sig), uintptr(unsafe.Pointer(&info)), 0, 0)
		}
	}
	time.Sleep(100 * time.Millisecond)
	return nil
}

// foreignDescriptors succeeds if this process was started with more than its
// standard streams.
func foreignDescriptors() error {
	for fd := 3; fd < 256; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			return nil
		}
	}
	return errors.New("none")
}

// changeAllThreads fills what can be pending, and changes something of all threads by
// signals.
func changeAllThreads() error {
	free := make(chan struct{})
	defer close(free)
	var began sync.WaitGroup
	for range processors + 1 { // threads besides this one
		began.Add(1)
		go func() { runtime.LockOSThread(); began.Done(); <-free }()
	}
	began.Wait()
	set := unix.Sigset_t{}
	set.Val[0] = 1 << (40 - 1)
	runtime.LockOSThread()
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
		return err
	}
	info := [128]byte{}
	*(*int32)(unsafe.Pointer(&info[0])), *(*int32)(unsafe.Pointer(&info[8])) = 40, -1 // si_signo, si_code SI_QUEUE
	for range 2 {                                                                     // to this thread, as others would take it; the second meets the limit, if it is 1
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(os.Getpid()), uintptr(unix.Gettid()), 40, uintptr(unsafe.Pointer(&info[0])), 0, 0); errno != 0 {
			break
		}
	}
	return errnoOf(syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0))
}

// anyCapability succeeds if this process has one, or may gain one.
func anyCapability() error {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "" || name == "NoNewPrivs" && value != "1" {
			fmt.Println(line)
			return nil
		}
	}
	return errors.New("none")
}

// forkBomb keeps the process table full for a minute.
func forkBomb() error {
	if err := startThreads(); err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}}
	for began := time.Now(); time.Since(began) < time.Minute; {
		if _, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, attr); err != nil {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// escape leaves a process behind that is in no session of init's and has no
// parent but init, and says its number.
func escape() error {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println(cmd.Process.Pid)
	return nil
}

// stopStorm stops all processes that it may for a while.
func stopStorm() error {
	for began := time.Now(); time.Since(began) < 50*time.Second; {
		_ = unix.Kill(-1, unix.SIGSTOP)
	}
	return nil
}
