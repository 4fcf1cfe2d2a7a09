package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// The labels of objects. The owner's alone decides about reaping; the others
// are for people who look.
const (
	labelOwner   = "securebench.owner"
	labelRun     = "securebench.run"
	labelTask    = "securebench.task"
	labelAttempt = "securebench.attempt"
	labelRole    = "securebench.role"
)

// Owner identifies a process across machines, boots and pid namespaces.
type Owner struct {
	Machine string // digest of the machine's id and host name, or "" if unknown
	Boot    string // the kernel's id of this boot, or "" if unknown
	PIDNS   string // the inode of the pid namespace, or "" if unknown
	PID     int
	Start   uint64 // clock ticks from boot to the start of the process
}

// CurrentOwner identifies this process. Fields that the platform does not
// tell stay empty; what such an owner leaves behind is never reaped.
func CurrentOwner() Owner {
	o := Owner{PID: os.Getpid(), Boot: readLine("/proc/sys/kernel/random/boot_id")}
	if id := readLine("/etc/machine-id"); id != "" {
		// The host name tells containers apart that share a baked-in id.
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

// processes is what the kernel tells of the processes of this pid namespace.
type processes struct {
	signal func(pid int, s syscall.Signal) error
	stat   func(pid int) (string, error)
}

// theProcesses asks the kernel.
func theProcesses() processes { return processes{syscall.Kill, readStat} }

func readStat(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return string(b), err
}

// ended reports whether the process that once began at a time is provably no
// more: the kernel knows no such number, or it belongs to a process that began
// at another time. Whoever may not look cannot tell: with hidepid, files of
// another user's processes are missing as if there were none.
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

// parseStat finds the start time (proc(5), stat, field 22). The name in
// parentheses is the process's own and may hold anything, so fields are
// counted from the last one.
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

// String encodes the owner as the value of a label.
func (o Owner) String() string {
	return strings.Join([]string{o.Machine, o.Boot, o.PIDNS, strconv.Itoa(o.PID),
		strconv.FormatUint(o.Start, 10)}, "/")
}

// parseOwner reads a label. Anything that String does not write is refused.
func parseOwner(s string) (Owner, bool) {
	f := strings.Split(s, "/")
	if len(f) != 5 {
		return Owner{}, false
	}
	pid, err1 := strconv.Atoi(f[3])
	start, err2 := strconv.ParseUint(f[4], 10, 64)
	o := Owner{f[0], f[1], f[2], pid, start}
	return o, err1 == nil && err2 == nil && pid > 0 && o.String() == s
}

// provesDead reports whether me can be sure that o has ended: its machine has
// booted since, or it is of me's pid namespace and ended tells so.
func (o Owner) provesDead(me Owner, ended func(pid int, start uint64) bool) bool {
	if o.Boot == "" || me.Boot == "" {
		return false
	}
	if o.Boot != me.Boot {
		return o.Machine != "" && o.Machine == me.Machine
	}
	if o.PIDNS == "" || o.PIDNS != me.PIDNS || o.Start == 0 {
		return false
	}
	return ended(o.PID, o.Start)
}

// labels are the labels of a new object.
func (e *Engine) labels(l sandbox.Labels) map[string]string {
	return map[string]string{
		labelOwner:   e.label,
		labelRun:     labelValue(l.Run),
		labelTask:    labelValue(l.Task),
		labelAttempt: strconv.Itoa(l.Attempt),
		labelRole:    labelValue(l.Role),
	}
}

// labelValue makes text of a pack fit for tools that print labels.
func labelValue(s string) string {
	q := strconv.QuoteToASCII(s[:min(len(s), 256)])
	return q[1 : len(q)-1]
}

// Reap removes the containers and volumes that dead processes left on the
// engine, and returns how many. An object is removed only if its label proves
// that its owner has ended; see [Owner].
func (e *Engine) Reap(ctx context.Context) (removed int, err error) {
	containers, volumes, err := e.owned(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	reap := func(kind string, objects map[string]string, remove func(context.Context, string) error) {
		for name, label := range objects {
			o, ok := parseOwner(label)
			if !ok || !o.provesDead(e.owner, theProcesses().ended) {
				continue
			}
			if err := remove(ctx, name); err != nil {
				errs = append(errs, err)
				continue
			}
			e.log.Info("removed what a dead run left", slog.String(kind, name), slog.Int("pid", o.PID))
			removed++
		}
	}
	reap("container", containers, e.removeContainer)
	reap("volume", volumes, e.removeVolume)
	return removed, errors.Join(errs...)
}

// Owned lists the containers, by id, and volumes, by name, on the engine that
// belong to this engine's owner, except the helper's volume, which lasts until
// Close. After a run it is empty.
func (e *Engine) Owned(ctx context.Context) ([]string, error) {
	containers, volumes, err := e.owned(ctx)
	if err != nil {
		return nil, err
	}
	e.helperMu.Lock()
	helper := e.helperVolume
	e.helperMu.Unlock()
	var names []string
	for _, objects := range []map[string]string{containers, volumes} {
		for name, label := range objects {
			if label == e.label && name != helper {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// owned lists what has an owner's label: names to labels.
func (e *Engine) owned(ctx context.Context) (containers, volumes map[string]string, err error) {
	filter := client.Filters{}.Add("label", labelOwner)
	cs, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, nil, fmt.Errorf("listing the engine's containers: %w", err)
	}
	vs, err := e.api.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return nil, nil, fmt.Errorf("listing the engine's volumes: %w", err)
	}
	containers, volumes = make(map[string]string), make(map[string]string)
	for _, c := range cs.Items {
		containers[c.ID] = c.Labels[labelOwner]
	}
	for _, v := range vs.Items {
		volumes[v.Name] = v.Labels[labelOwner]
	}
	return containers, volumes, nil
}
