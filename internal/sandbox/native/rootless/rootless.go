// Package rootless runs this program again in a user namespace and a mount namespace,
// where a user without root's rights may mount and map users. The program that was started
// waits for it and ends as it ended.
package rootless

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox/mountns"
)

// choice is the environment variable with which a user who is not root chooses to run
// this program in a user namespace: "1".
const choice = "SECUREBENCH_ROOTLESS"

// marker is the variable that tells a program how far it is on its way.
const (
	marker  = "SECUREBENCH_USERNS"
	waiting = "waiting" // for its users to be mapped
	entered = "entered"
)

// Program is how this program was started.
type Program struct {
	Args, Env             []string
	Stdin, Stdout, Stderr *os.File
}

// Elsewhere is for the beginning of main: it runs the whole program in namespaces of its
// own, if its user is not root and has made the choice. It reports whether the program
// has run there, and with what exit code; after an error it has not.
func (p Program) Elsewhere() (code int, ran bool, err error) {
	if err := p.Continue(); err != nil {
		return 0, false, err
	}
	if !slices.Contains(p.Env, choice+"=1") || os.Geteuid() == 0 || mountns.Rootless() {
		return 0, false, nil
	}
	ranges, err := findRanges()
	if err != nil {
		return 0, false, err
	}
	code, err = p.Enter(ranges)
	return code, err == nil, err
}

// Continue continues what [Program.Enter] began, in a program that was started by
// it. In any other it does nothing.
func (p Program) Continue() error {
	switch {
	case slices.Contains(p.Env, marker+"="+waiting):
		return p.wait()
	case slices.Contains(p.Env, marker+"="+entered):
		// The kernel forgot this one when the program got its rights. Should the parent have
		// ended meanwhile, it is too late for the signal.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("binding the program to the one that started it: %w", err)
		}
		if os.Getppid() == 1 {
			return errors.New("the program that started this one has ended")
		}
		return os.Unsetenv(marker)
	}
	return nil
}

// mapped is the descriptor from which a program reads that its users are mapped.
const mapped = 3

// wait waits until the users are mapped, and starts the program once more: only a
// program that starts as root of the namespace has root's rights there.
func (p Program) wait() error {
	pipe := os.NewFile(mapped, "mapped")
	if n, err := pipe.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the users of this program were not mapped: %w", err)
	}
	if err := pipe.Close(); err != nil {
		return err
	}
	if err := unix.Exec("/proc/self/exe", p.Args, p.marked(entered)); err != nil {
		return fmt.Errorf("starting the program in its namespaces: %w", err)
	}
	return nil
}

// marked is the environment with a mark.
func (p Program) marked(mark string) []string {
	env := slices.DeleteFunc(slices.Clone(p.Env), func(v string) bool { return strings.HasPrefix(v, marker+"=") })
	return append(env, marker+"="+mark)
}

// Enter runs this program with its arguments in namespaces of its own, and returns
// its exit code. There the user is root, and the users of the given ranges exist.
func (p Program) Enter(r Ranges) (code int, err error) {
	runtime.LockOSThread() // the child ends with the thread that started it
	defer runtime.UnlockOSThread()
	read, write, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("making a pipe: %w", err)
	}
	defer write.Close()
	cmd := exec.Command("/proc/self/exe", p.Args[1:]...) //nolint:gosec,noctx // this program; it ends as it wants
	cmd.Args[0] = p.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = p.Stdin, p.Stdout, p.Stderr, []*os.File{read}
	cmd.Env = p.marked(waiting)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer signal.Stop(signals)
	if err := errors.Join(cmd.Start(), read.Close()); err != nil {
		return 0, fmt.Errorf("making a user namespace: %w", err)
	}
	err = r.write(cmd.Process.Pid)
	if err == nil {
		_, err = write.Write([]byte{1})
	}
	if err != nil {
		_ = cmd.Process.Kill() // it waits
		_ = cmd.Wait()         // err says more
		return 0, err
	}
	return follow(cmd, signals)
}

// follow passes signals on until the program has ended. What is typed at a terminal
// reaches both by itself.
func follow(cmd *exec.Cmd, signals <-chan os.Signal) (code int, err error) {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if (s == unix.SIGINT || s == unix.SIGQUIT) && typed() {
				continue
			}
			_ = cmd.Process.Signal(s) // it may have ended
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 0, fmt.Errorf("running the program in its namespaces: %w", err)
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// typed reports whether this process is in the foreground of a terminal.
func typed() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// write maps the users and groups of a process. The programs that do it have the
// right to, and check that the ranges are the user's.
func (r Ranges) write(pid int) error {
	for _, m := range []struct {
		program string
		own     int
		sub     Range
	}{{"newuidmap", os.Getuid(), r.Users}, {"newgidmap", os.Getgid(), r.Groups}} {
		args := []string{strconv.Itoa(pid), "0", strconv.Itoa(m.own), "1", "1", strconv.Itoa(m.sub.Start), strconv.Itoa(m.sub.Count)}
		out, err := exec.Command(m.program, args...).CombinedOutput() //nolint:gosec,noctx // numbers; it ends by itself
		if err != nil {
			return fmt.Errorf("%s: %w: %.500q", m.program, err, out)
		}
	}
	return nil
}
