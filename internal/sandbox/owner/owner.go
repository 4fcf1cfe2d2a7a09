// Package owner identifies processes across machines, boots and pid
// namespaces, so that what a process left behind is removed only when the
// process has provably ended. Temporary folders have the name of their maker, so
// that those of killed processes are found.
package owner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Owner identifies a process.
type Owner struct {
	Machine string // digest of the machine ID and the host name, or "" if unknown
	Boot    string // the kernel's ID of this boot, or "" if unknown
	PIDNS   string // the inode of the pid namespace, or "" if unknown
	PID     int
	Start   uint64 // clock ticks from boot to the start of the process
}

// Current identifies this process. Fields that the platform does not provide
// stay empty; such an owner is never proven dead.
func Current() Owner {
	o := Owner{PID: os.Getpid(), Boot: readLine("/proc/sys/kernel/random/boot_id")}
	if id := readLine("/etc/machine-id"); id != "" {
		// The host name distinguishes containers that share a baked-in ID.
		host, _ := os.Hostname()
		sum := sha256.Sum256([]byte(id + "\x00" + host))
		o.Machine = hex.EncodeToString(sum[:16])
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		o.PIDNS = strings.Trim(strings.TrimPrefix(ns, "pid:"), "[]")
	}
	if stat, err := readStat(o.PID); err == nil {
		o.Start, _ = parseStat(stat)
	}
	return o
}

func readLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// String encodes the owner as the value of a label.
func (o Owner) String() string {
	return strings.Join([]string{o.Machine, o.Boot, o.PIDNS, strconv.Itoa(o.PID),
		strconv.FormatUint(o.Start, 10)}, "/")
}

// Parse decodes a label. It accepts only what [Owner.String] writes.
func Parse(s string) (Owner, bool) {
	f := strings.Split(s, "/")
	if len(f) != 5 {
		return Owner{}, false
	}
	pid, err1 := strconv.Atoi(f[3])
	start, err2 := strconv.ParseUint(f[4], 10, 64)
	o := Owner{f[0], f[1], f[2], pid, start}
	return o, err1 == nil && err2 == nil && pid > 0 && o.String() == s
}

// Dead reports whether the owner has provably ended, as seen by observer,
// which is this process.
func (o Owner) Dead(observer Owner) bool {
	return o.dead(observer, kernel().ended)
}

// dead proves an end in one of two ways: the owner's machine has rebooted
// since, or the owner is in the observer's pid namespace and ended reports it.
func (o Owner) dead(observer Owner, ended func(pid int, start uint64) bool) bool {
	if o.Boot == "" || observer.Boot == "" {
		return false
	}
	if o.Boot != observer.Boot {
		return o.Machine != "" && o.Machine == observer.Machine
	}
	if o.PIDNS == "" || o.PIDNS != observer.PIDNS || o.Start == 0 {
		return false
	}
	return ended(o.PID, o.Start)
}

// processes is the kernel's view of the processes in this pid namespace.
type processes struct {
	signal func(pid int, s syscall.Signal) error
	stat   func(pid int) (string, error)
}

func kernel() processes { return processes{syscall.Kill, readStat} }

func readStat(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return string(b), err
}

// ended reports whether the process that started at a time has provably ended:
// its number is free or belongs to a process that started at another time. A
// missing file in /proc proves nothing: with hidepid, files of other users'
// processes are missing too.
func (p processes) ended(pid int, start uint64) bool {
	if errors.Is(p.signal(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := p.stat(pid)
	if err != nil {
		return false
	}
	t, ok := parseStat(stat)
	return ok && t != start
}

// parseStat finds the start time (proc(5), stat, field 22). The process chooses
// the name in parentheses, so fields are counted from the last parenthesis.
func parseStat(s string) (uint64, bool) {
	i := strings.LastIndexByte(s, ')')
	if i < 0 {
		return 0, false
	}
	fields := strings.Fields(s[i+1:]) // from field 3 on
	if len(fields) < 20 {
		return 0, false
	}
	t, err := strconv.ParseUint(fields[19], 10, 64)
	return t, err == nil
}
