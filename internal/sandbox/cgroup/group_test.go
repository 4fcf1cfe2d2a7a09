package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
)

// here returns this machine's control groups. SECUREBENCH_TEST_NATIVE says what
// happens where they cannot be used.
func here(t *testing.T) *Hierarchy {
	t.Helper()
	mode := os.Getenv("SECUREBENCH_TEST_NATIVE")
	if mode == "never" {
		t.Skip("SECUREBENCH_TEST_NATIVE=never")
	}
	h, err := Find()
	if err == nil && len(h.Missing()) > 0 {
		err = fmt.Errorf("control groups: missing: %v", h.Missing())
	}
	if err == nil {
		err = h.Prepare()
	}
	if err != nil && mode == "require" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	return h
}

// eachWay runs a test with each way of handling groups that this machine has.
// Version 2 is there without its controllers where version 1 has them.
func eachWay(t *testing.T, test func(t *testing.T, group func() *Group)) {
	h := here(t)
	var n atomic.Int64
	run := func(name string, h *Hierarchy, change func(*Group)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func() *Group {
				g := newGroup(t, h, fmt.Sprintf("%d-%d", os.Getpid(), n.Add(1)))
				change(g)
				return g
			})
		})
	}
	run("version "+h.Version(), h, func(*Group) {})
	second := h
	if !h.v2 {
		var stat unix.Statfs_t
		dir := filepath.Join(unified, "unified")
		if err := unix.Statfs(dir, &stat); err != nil || stat.Type != unix.CGROUP2_SUPER_MAGIC {
			return
		}
		second = &Hierarchy{v2: true, trees: []tree{{point: dir}}, base: "/"}
		run("version 2", second, func(*Group) {})
	}
	// As on Linux before 5.14.
	run("version 2 without cgroup.kill", second, func(g *Group) { g.kill += ".absent" })
}

// newGroup makes a group as an OCI runtime does, and removes it after the test.
func newGroup(t *testing.T, h *Hierarchy, name string) *Group {
	t.Helper()
	g := h.Group("securebench-test-" + name)
	for _, dir := range g.dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(g.Kill(ctx), g.Remove(ctx)); err != nil {
			t.Error(err)
		}
	})
	return g
}

// set writes to a file of a group.
func set(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := write(filepath.Join(dir, file), text); err != nil {
		t.Fatal(err)
	}
}

// limit sets limits as an OCI runtime does. Groups of version 2 without
// controllers have none.
func limit(t *testing.T, g *Group, memory, pids string) {
	t.Helper()
	if !g.v2 {
		set(t, g.memory, "memory.limit_in_bytes", memory)
		set(t, g.pids, "pids.max", pids)
		return
	}
	for file, text := range map[string]string{"memory.max": memory, "memory.swap.max": "0", "pids.max": pids} {
		if err := write(filepath.Join(g.dirs[0], file), text); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// start runs a shell script in a group, and returns as soon as it is in it. Its
// processes end with the test.
func start(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	join := ""
	for _, dir := range g.dirs {
		// A group of cpuset takes processes only once it has processors.
		if g.v2 || !fileExists(dir, "cpuset.mems") {
			join += "echo $$ > '" + dir + "/cgroup.procs' && "
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", join+"echo >&3 && exec 3>&- && { "+script+"\n}")
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // an error if the test has waited for it
	if n, err := r.Read(make([]byte, 1)); n != 1 {
		t.Errorf("the process did not get into its group: %v", err)
	}
	return cmd
}

// await waits until the processes of a group are as wanted.
func await(t *testing.T, g *Group, want func(pids []int) bool) []int {
	t.Helper()
	var pids []int
	awaittest.Until(t, "the processes of the group", func() bool {
		var err error
		if pids, err = g.Processes(); err != nil {
			t.Fatal(err)
		}
		return want(pids)
	})
	return pids
}

func atLeast(n int) func([]int) bool { return func(pids []int) bool { return len(pids) >= n } }

// hopper is a process that is replaced by a child of its own all the time: a list
// of processes is out of date as soon as it has been read. A limit on processes
// would end it while the machine is slow to reap those before it.
const hopper = `hop() { hop & exit; }; hop`

// bomb is a fork bomb, which the limit on processes keeps from taking the machine. A
// shell that cannot fork ends, so that nothing of the bomb may be left after a while: one
// process stays.
const bomb = `sleep 600 & bomb() { bomb | bomb & }; bomb 2>/dev/null; while :; do bomb; done 2>/dev/null`

// stubborn ignores every signal that can be ignored.
const stubborn = `trap '' 1 2 3 6 13 14 15; while :; do sleep 60; done`

func TestKill(t *testing.T) {
	for name, script := range map[string]string{
		"one":      "exec sleep 600",
		"stubborn": stubborn,
		"hopper":   hopper,
		"hoppers":  strings.Repeat("("+hopper+") & ", 20) + "wait; " + hopper,
		"bomb":     bomb,
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, group func() *Group) {
				g := group()
				if script == bomb {
					limit(t, g, "268435456", "200")
				}
				if g.v2 && script == bomb && !fileExists(g.dirs[0], "pids.max") {
					t.Skip("nothing bounds a fork bomb in a group without controllers")
				}
				start(t, g, script)
				await(t, g, atLeast(1))
				for range 20 {
					_ = sleep(t.Context(), time.Millisecond) // the attack gets going
				}
				if err := g.Kill(t.Context()); err != nil {
					t.Fatal(err)
				}
				if pids, err := g.Processes(); err != nil || len(pids) > 0 {
					t.Errorf("after the kill: %v, %v", pids, err)
				}
				if err := g.Remove(t.Context()); err != nil {
					t.Error(err)
				}
				for _, dir := range g.dirs {
					if fileExists(dir) {
						t.Errorf("%s is left", dir)
					}
				}
			})
		})
	}
}

func fileExists(parts ...string) bool {
	_, err := os.Stat(filepath.Join(parts...))
	return err == nil
}

// TestOutrun shows what Kill has to cope with: by the time a list of running
// processes has been read, they are others. A list of frozen ones is final.
func TestOutrun(t *testing.T) {
	eachWay(t, func(t *testing.T, group func() *Group) {
		g := group()
		start(t, g, hopper)
		listed := await(t, g, atLeast(1))
		await(t, g, func(pids []int) bool {
			return len(pids) > 0 && !slices.ContainsFunc(pids, func(pid int) bool { return slices.Contains(listed, pid) })
		})
		if err := g.signalBatch(listed); err != nil {
			t.Fatal(err)
		}
		await(t, g, atLeast(1)) // the attack works

		if err := g.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := await(t, g, atLeast(1))
		for range 20 {
			_ = sleep(t.Context(), time.Millisecond)
			if second := await(t, g, atLeast(1)); !slices.Equal(first, second) {
				t.Fatalf("frozen, the processes were %v, then %v", first, second)
			}
		}
		if err := g.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBystander shows that the process to which the kernel gave the ID of one
// that was listed lives on.
func TestBystander(t *testing.T) {
	eachWay(t, func(t *testing.T, group func() *Group) {
		theirs, ours := group(), group()
		// One process each: a shell could fork after it was listed.
		start(t, theirs, "exec sleep 600")
		start(t, ours, "exec sleep 600")
		bystander, victim := await(t, theirs, atLeast(1)), await(t, ours, atLeast(1))
		if err := ours.signalBatch(slices.Concat(bystander, victim)); err != nil {
			t.Fatal(err)
		}
		await(t, ours, func(pids []int) bool { return len(pids) == 0 })
		await(t, theirs, atLeast(1))
	})
}

func TestFreeze(t *testing.T) {
	eachWay(t, func(t *testing.T, group func() *Group) {
		g := group()
		counter := filepath.Join(t.TempDir(), "counter")
		start(t, g, "while :; do echo >> "+counter+"; done")
		size := func() int64 {
			info, err := os.Stat(counter)
			if err != nil {
				return 0
			}
			return info.Size()
		}
		grow := func() {
			for from := size(); size() == from; {
				if err := sleep(t.Context(), time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}
		}
		grow()
		if err := g.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := size()
		_ = sleep(t.Context(), 50*time.Millisecond)
		if after := size(); after != before {
			t.Errorf("frozen, the process wrote %d bytes", after-before)
		}
		if err := g.Thaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		grow()
		if err := g.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.Kill(t.Context()); err != nil {
			t.Fatalf("killing frozen processes: %v", err)
		}
	})
}

// TestBelow shows that groups below one count as it.
func TestBelow(t *testing.T) {
	eachWay(t, func(t *testing.T, group func() *Group) {
		g := group()
		below := *g
		below.dirs = slices.Clone(g.dirs)
		for i := range below.dirs {
			below.dirs[i] += "/a/b"
			if err := os.MkdirAll(below.dirs[i], 0o755); err != nil {
				t.Fatal(err)
			}
		}
		start(t, &below, "exec sleep 600")
		await(t, g, atLeast(1))
		if err := g.Remove(t.Context()); !errors.Is(err, ErrProcesses) {
			t.Fatalf("removing a group with processes: %v", err)
		}
		if err := g.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAbsent shows what a group that does not exist answers.
func TestAbsent(t *testing.T) {
	g := here(t).Group("securebench-test-absent/a")
	if pids, err := g.Processes(); err != nil || len(pids) != 0 {
		t.Errorf("Processes: %v, %v", pids, err)
	}
	if err := errors.Join(g.Kill(t.Context()), g.Remove(t.Context())); err != nil {
		t.Error(err)
	}
	if names, err := here(t).List("securebench-test-absent"); err != nil || len(names) != 0 {
		t.Errorf("List: %v, %v", names, err)
	}
	if _, err := g.Events(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Events: %v", err)
	}
	if err := g.Freeze(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Freeze: %v", err)
	}
}

// TestEvents runs into each limit, and into none.
func TestEvents(t *testing.T) {
	h := here(t)
	if g := newGroup(t, h, "events"); !fileExists(g.memory, "memory.stat") || !fileExists(g.pids, "pids.max") {
		t.Fatal("the group has no controllers: nothing would end a test")
	}
	for i, test := range []struct {
		name, script string
		oom, pids    bool
	}{
		{"none", "true", false, false},
		{"memory", "tail /dev/zero", true, false},
		{"a child's memory", "tail /dev/zero; true", true, false},
		{"processes", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 600 & done", false, true},
		// Killed by a signal as the kernel does for want of memory, but not for it.
		{"killed", "kill -9 $$", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, h, fmt.Sprintf("events-%d-%d", os.Getpid(), i))
			limit(t, g, "33554432", "8")
			err := start(t, g, test.script).Wait()
			t.Logf("the script: %v", err)
			e, err := g.Events()
			if err != nil {
				t.Fatal(err)
			}
			if oom, pids := e.OOMKills > 0, e.PidsHits > 0; oom != test.oom || pids != test.pids {
				t.Errorf("%+v; want a kill for memory: %v, a refused fork: %v", e, test.oom, test.pids)
			}
		})
	}
}

// TestMany makes and removes many groups side by side, some with processes.
func TestMany(t *testing.T) {
	h := here(t)
	parent := fmt.Sprintf("securebench-test-many-%d", os.Getpid())
	const workers, each = 4, 50
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				g := h.Group(fmt.Sprintf("%s/%d-%d", parent, w, i))
				for _, dir := range g.dirs {
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Error(err)
					}
				}
				if i%10 == 0 {
					start(t, g, stubborn)
				}
				if err := errors.Join(g.Kill(t.Context()), g.Remove(t.Context())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if names, err := h.List(parent); err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
	if err := h.Group(parent).Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTop shows that no name leads out of where groups are made, and that a
// mistake cannot end what else runs on the machine.
func TestTop(t *testing.T) {
	h := here(t)
	for _, name := range []string{"", "/", ".", "..", "../..", "a/.."} {
		g := h.Group(name)
		for what, err := range map[string]error{
			"Kill": g.Kill(t.Context()), "Remove": g.Remove(t.Context()),
			"Freeze": g.Freeze(t.Context()), "Thaw": g.Thaw(t.Context()),
		} {
			if !errors.Is(err, errTop) {
				t.Errorf("%s of the group %q: %v", what, name, err)
			}
		}
	}
	if got, want := h.Group("../../a").Path(), h.Group("a").Path(); got != want {
		t.Errorf("the path is %s, want %s", got, want)
	}
}

// TestKillCancelled shows that Kill ends with its context.
func TestKillCancelled(t *testing.T) {
	eachWay(t, func(t *testing.T, group func() *Group) {
		g := group()
		start(t, g, "exec sleep 600")
		await(t, g, atLeast(1))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("stop"))
		if err := g.Kill(ctx); err != nil && !strings.Contains(err.Error(), "stop") {
			t.Error(err)
		}
		if err := g.Kill(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
