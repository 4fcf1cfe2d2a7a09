package initproc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"securebench/internal/bounded"
	"securebench/internal/sandbox/privilege"
	"securebench/internal/sandbox/wire"
)

// processes is the table of commands. While its lock is held no child of init
// is reaped, so the number of one that is there means no other process.
type processes struct {
	switches bool          // commands can run as other users
	grants   privilege.Set // what commands can be given
	forked   chan struct{}
	loopback Loopback

	starter starter

	// changing is held while files are changed, and while a command is started:
	// after that nothing is changed any more. It comes before mu.
	changing sync.Mutex
	changes  bool // init can still change files
	links    *follower

	mu       sync.Mutex
	last     uint64
	commands map[uint64]*command
	running  map[int]*command // by process
}

func newProcesses() *processes {
	return &processes{forked: make(chan struct{}, 1), starter: newStarter(), commands: map[uint64]*command{}, running: map[int]*command{}}
}

// starter runs functions on a thread of its own, on which nothing else runs: what
// it executes gets the rights of that thread.
type starter chan func()

func newStarter() starter {
	s := make(starter)
	go func() {
		runtime.LockOSThread()
		for f := range s {
			f()
		}
	}()
	return s
}

// do calls f on the thread.
func (s starter) do(f func() error) error {
	done := make(chan error, 1)
	s <- func() { done <- f() }
	return <-done
}

func (p *processes) find(id uint64) *command {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commands[id]
}

func (p *processes) forget(c *command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.commands, c.id)
}

// start starts a command. An [unix.Errno] in the error says that the sandbox
// did not let it; anything else is a request that cannot be served.
func (p *processes) start(s start) (uint64, error) {
	sys := &syscall.SysProcAttr{Setsid: true}
	if p.switches {
		sys.Credential = &syscall.Credential{Uid: uint32(s.UID), Gid: uint32(s.GID)}
	} else if s.UID != os.Getuid() || s.GID != os.Getgid() {
		return 0, fmt.Errorf("running as %d:%d takes the capabilities SETUID, SETGID and KILL", s.UID, s.GID)
	}
	granted, err := privilege.Of(s.Capabilities...)
	if err != nil {
		return 0, err
	}
	if !p.grants.Has(granted) {
		return 0, fmt.Errorf("the sandbox was not made to grant all of %v", s.Capabilities)
	}
	if s.UID == 0 {
		sys.AmbientCaps = granted.Numbers()
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.commands) >= maxCommands {
		return 0, fmt.Errorf("%d commands are there already", maxCommands)
	}
	p.changes = false
	c := &command{ended: make(chan struct{})}
	if err := p.starter.do(func() error { return c.execute(s, sys) }); err != nil {
		c.close()
		return 0, fmt.Errorf("starting %q: %w", bounded.Text(s.Argv[0], wire.MaxText/8), err)
	}
	p.last++
	c.id = p.last
	p.commands[c.id], p.running[c.pid] = c, c
	select {
	case p.forked <- struct{}{}:
	default:
	}
	return c.id, nil
}

// environment returns the variables of a command. One that is set twice is set
// as it was last.
func (s start) environment() []string {
	var all []string
	if s.Inherit {
		all = os.Environ() //nolint:forbidigo // it is the sandbox's
	}
	at := map[string]int{}
	var env []string
	for _, v := range append(all, s.Env...) {
		name, _, _ := strings.Cut(v, "=")
		if i, ok := at[name]; ok {
			env[i] = v
			continue
		}
		at[name] = len(env)
		env = append(env, v)
	}
	return env
}

// reap collects the ends of all children, orphans included, for ever.
func (p *processes) reap() {
	for {
		pid, err := ended()
		if errors.Is(err, unix.ECHILD) {
			<-p.forked
		}
		if err != nil {
			continue
		}
		p.mu.Lock()
		var status unix.WaitStatus
		var used unix.Rusage
		_, err = unix.Wait4(pid, &status, 0, &used)
		if c := p.running[pid]; c != nil && err == nil {
			delete(p.running, pid)
			c.end(status, used)
		}
		p.mu.Unlock()
	}
}

// ended waits for a child that has ended, and leaves it there.
func ended() (pid int, err error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return 0, err
	}
	const pidOffset = 16 // si_pid, on 64-bit machines
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), pidOffset))), nil
}

// killPasses bounds the search for descendants that fork while they are killed.
const killPasses = 50

// kill kills a command with the descendants that are known to be its own.
func (p *processes) kill(c *command) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[c.pid] != c {
		return nil // its number may be another process's by now
	}
	sessions := map[int]bool{c.pid: true}
	for range killPasses {
		all, err := listProcesses()
		if err != nil {
			return err
		}
		alive := false
		for _, d := range descendants(all, c.pid, sessions) {
			alive = true
			_ = unix.Kill(d, unix.SIGKILL) // it may have ended
		}
		if !alive {
			break
		}
	}
	return nil
}

// process is a line of the process table.
type process struct{ pid, parent, session int }

// listProcesses lists the processes that are not zombies.
func listProcesses() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		if pr, ok := parseStat(pid, stat); ok {
			all = append(all, pr)
		}
	}
	return all, nil
}

// parseStat reads a line of /proc/PID/stat; zombies are not reported. The name
// in brackets can hold anything.
func parseStat(pid int, stat []byte) (process, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 4 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	session, err2 := strconv.Atoi(string(fields[3]))
	return process{pid, parent, session}, err1 == nil && err2 == nil
}

// descendants returns the processes of the sessions and below root, and adds
// the sessions that they lead.
func descendants(all []process, root int, sessions map[int]bool) []int {
	found := map[int]bool{}
	var pids []int
	for grown := true; grown; {
		grown = false
		for _, pr := range all {
			if found[pr.pid] || pr.pid == 1 || pr.pid != root && !sessions[pr.session] && !found[pr.parent] {
				continue
			}
			found[pr.pid], grown = true, true
			pids = append(pids, pr.pid)
			sessions[pr.session] = true
		}
	}
	return pids
}

// killAll kills everything but init. One call reaches all: the kernel lets no
// process fork meanwhile.
func (p *processes) killAll() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return killEach()
}

// killUser kills all processes of a user, by the same call on a thread that
// may signal only that user's processes.
func (p *processes) killUser(uid int) error {
	if !p.switches && uid != os.Getuid() {
		return nil // none can be there
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan error)
	go func() { done <- asUser(uid, killEach) }()
	return <-done
}

// asUser calls f on a thread that has a user's rights meanwhile. The thread
// takes its own back, since a new one could not be started while the process
// table is full.
func asUser(uid int, f func() error) error {
	runtime.LockOSThread()
	user := os.Getuid()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var own [2]unix.CapUserData
	if err := unix.Capget(&header, &own[0]); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	none := own
	for i := range none {
		none[i].Effective = 0
	}
	err := setThreadUser(uid)
	if err == nil {
		err = unix.Capset(&header, &none[0])
	}
	if err == nil {
		err = f()
	}
	if e := errors.Join(setThreadUser(user), unix.Capset(&header, &own[0])); e != nil {
		return errors.Join(err, e) // the thread is not used again, and ends
	}
	runtime.UnlockOSThread()
	return err
}

// setThreadUser changes the real and effective user of this thread. The saved
// one stays init's, so that the thread can go back and keeps its permitted
// capabilities.
func setThreadUser(uid int) error {
	u := uintptr(uid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, u, u, ^uintptr(0)); errno != 0 {
		return errno
	}
	return nil
}

// killEach signals every process that this thread may, but the first and its own.
func killEach() error {
	if os.Getpid() != 1 {
		return errors.New("this process is not the first of its sandbox: nothing is killed")
	}
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		return err
	}
	return nil
}
