package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrProcesses means that a group cannot be removed since processes are in it.
var ErrProcesses = errors.New("processes are in it")

// errTop protects everything else on the machine from a mistake in a name.
var errTop = errors.New("control group: a group without a name is not a sandbox's")

// Group is one control group. With version 1 it is one of the same path in each
// hierarchy.
type Group struct {
	v2   bool
	top  bool
	path string
	dirs []string // one for each hierarchy, whether it exists or not

	memory, pids, freezer string // those of dirs with these controllers, or ""
	kill                  string // the file of version 2 that kills
}

// Path is what an OCI specification calls the group (linux.cgroupsPath).
func (g *Group) Path() string { return g.path }

// Processes lists the processes in the group and below it. With version 1 a
// process that is being started is in some hierarchies before it is in others: it
// is listed as soon as it is in one.
func (g *Group) Processes() ([]int, error) {
	var pids []int
	for _, dir := range g.dirs {
		err := walk(dir, func(dir string) error {
			file, err := read(filepath.Join(dir, "cgroup.procs"))
			if err != nil {
				return gone(err)
			}
			list, ok := parsePIDs(file)
			if !ok {
				return fmt.Errorf("control group %s: the list of its processes cannot be read", dir)
			}
			pids = append(pids, list...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// socketsFile is the limit of version 1 on the memory of sockets, which its limit on
// memory does not count. It is called TCP's, and is that of all internet sockets.
const socketsFile = "memory.kmem.tcp.limit_in_bytes"

// LimitsSockets reports whether groups can have a limit on the memory of sockets.
func (h *Hierarchy) LimitsSockets() bool {
	memory := h.Group("").memory
	return memory != "" && machine{}.Read(filepath.Join(memory, socketsFile)) != ""
}

// LimitSockets bounds the memory of the sockets that are made in the group from now on.
// It makes the group, which needs no processes yet, where memory is limited.
func (g *Group) LimitSockets(bytes int64) error {
	if err := os.MkdirAll(g.memory, 0o755); err != nil {
		return fmt.Errorf("control group %s: %w", g.path, err)
	}
	if err := write(filepath.Join(g.memory, socketsFile), strconv.FormatInt(bytes, 10)); err != nil {
		return fmt.Errorf("control group %s: limiting the memory of sockets: %w", g.path, err)
	}
	return nil
}

// Remove removes the group and those below it. A group that does not exist is no
// error; one with processes is.
func (g *Group) Remove(ctx context.Context) error {
	if g.top {
		return errTop
	}
	for _, dir := range g.dirs {
		for pause := minPause; ; pause = min(2*pause, maxPause) {
			err := remove(dir)
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EBUSY) {
				return err
			}
			// The kernel lets go of a group shortly after it has taken a
			// process that ends off the list.
			if pids, err := g.Processes(); err != nil || len(pids) > 0 {
				return errors.Join(fmt.Errorf("control group %s: %w", g.path, ErrProcesses), err)
			}
			if err := sleep(ctx, pause); err != nil {
				return fmt.Errorf("control group %s: the kernel does not let go of it: %w", g.path, err)
			}
		}
	}
	return nil
}

// remove removes a group, and if need be those below it first.
func remove(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	below, listErr := subgroups(dir)
	if len(below) == 0 || listErr != nil {
		return errors.Join(&fs.PathError{Op: "rmdir", Path: dir, Err: err}, listErr)
	}
	for _, name := range below {
		if err := remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// walk calls f for a group and for those below it.
func walk(dir string, f func(dir string) error) error {
	if err := f(dir); err != nil {
		return err
	}
	below, err := subgroups(dir)
	if err != nil {
		return err
	}
	for _, name := range below {
		if err := walk(filepath.Join(dir, name), f); err != nil {
			return err
		}
	}
	return nil
}

// subgroups lists the groups directly below a group; there are none below one
// that does not exist.
func subgroups(dir string) ([]string, error) {
	// A group's folder counts the folders in it as its links, less two.
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil || stat.Nlink == 2 {
		return nil, gone(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, gone(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// gone turns the errors of a group that does not exist, or no longer does, into
// none.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func read(name string) (string, error) {
	b, err := os.ReadFile(name)
	return string(b), err
}

func write(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// How long is waited before looking again: what is waited for takes the kernel
// less than a millisecond on an idle machine.
const (
	minPause = 50 * time.Microsecond
	maxPause = 10 * time.Millisecond
)

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Events counts what limits did.
type Events struct {
	// OOMKills counts the processes that were killed for want of memory, of the group or
	// of the whole machine.
	OOMKills int64
	// PidsHits counts the forks that were refused by the limit on processes.
	PidsHits int64
}

// Events reads what happened in the group since it was made.
func (g *Group) Events() (e Events, _ error) {
	if g.memory == "" || g.pids == "" {
		return Events{}, errors.New("control groups: the controllers memory and pids are missing")
	}
	file := "memory.oom_control"
	if g.v2 {
		file = "memory.events"
	}
	var errs [2]error
	e.OOMKills, errs[0] = counter(g.memory, file, "oom_kill")
	e.PidsHits, errs[1] = counter(g.pids, "pids.events", "max")
	return e, errors.Join(errs[:]...)
}

// counter reads the value of a key in a group's file.
func counter(dir, file, key string) (int64, error) {
	name := filepath.Join(dir, file)
	text, err := read(name)
	if err != nil {
		return 0, err
	}
	n, ok := parseFlat(text, key)
	if !ok {
		return 0, fmt.Errorf("%s: it does not say %s", name, key)
	}
	return n, nil
}
