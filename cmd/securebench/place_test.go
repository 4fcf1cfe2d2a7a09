package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/owner"
)

// place is an engine for runs of the shipped binary, and where to look for what
// they leave.
type place struct {
	engine, image string
	env           []string
	auto          bool // it is what auto takes
	// left lists what a run, or the processes of its starts, have on the machine.
	left func(t *testing.T, runID string, pids []int) []string
	// bystander makes a sandbox of a living process and returns a function that
	// describes it.
	bystander func(t *testing.T) (look func() string)
}

// dockerPlace is Docker, or nothing where it is missing and need not be there.
func dockerPlace(t *testing.T) (p place) {
	t.Helper()
	t.Run("find docker", func(t *testing.T) {
		p = place{engine: "docker", image: needDocker(t)}
	})
	p.left = leftOnDocker
	p.bystander = func(t *testing.T) func() string { return bystander(t, p.image) }
	return p
}

// leftOnDocker lists what a run of several starts, all of which have ended, has left. The
// engine may have been making something when a start was killed: what is not of the last
// start can be there after it, and goes with the next one's clean-up.
func leftOnDocker(t *testing.T, runID string, starts []int) []string {
	t.Helper()
	for _, list := range []string{"ps -a", "volume ls"} {
		args := append(strings.Fields(list), "--filter", "label=securebench.run="+runID, "--format", `{{.Label "securebench.owner"}}`)
		for _, label := range strings.Fields(dockerOutput(t, args...)) {
			if o, ok := owner.Parse(label); !ok || o.PID == starts[len(starts)-1] {
				t.Errorf("the last start has left something of %s", label)
			}
		}
	}
	if len(leftovers(t, runID)) > 0 {
		if _, err := enginetest.Docker(t).Reap(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return append(leftovers(t, runID), orphans(t, starts)...)
}

// nativePlace is the native engine with an image store and a folder for temporary
// files that nobody else uses, or nothing where it is missing and need not be there.
func nativePlace(t *testing.T) (p place) {
	t.Helper()
	store, tmp := filepath.Join(t.TempDir(), "images"), t.TempDir()
	p.left = func(t *testing.T, _ string, pids []int) []string {
		there := slices.Concat(slices.Sorted(nativeGroups(t, gone(pids)...).all), orphans(t, pids), unfinished(t, store, tmp))
		return there
	}
	t.Run("find native", func(t *testing.T) {
		e := enginetest.Native(t)
		image := enginetest.Image(t, e).Ref
		copyStore(t, enginetest.Images(t), store)
		p.engine, p.image, p.env = "native", image, []string{"SECUREBENCH_IMAGES=" + store, "TMPDIR=" + tmp}
		p.auto = strings.Contains(securebench(t, p.env, "doctor").stdout, "auto takes native")
	})
	p.bystander = nativeBystander
	return p
}

// needNative is nativePlace for a test that runs on no other engine.
func needNative(t *testing.T) place {
	t.Helper()
	p := nativePlace(t)
	if p.engine == "" {
		t.Skip("no native engine")
	}
	return p
}

// copyStore copies an image store, from which nobody removes anything meanwhile; layers,
// which nobody changes, are linked where that is possible.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	lock, err := os.Open(filepath.Join(from, "lock"))
	if err == nil {
		defer lock.Close()
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH)
	}
	if err != nil {
		t.Fatalf("locking the image store: %v", err)
	}
	if err := exec.Command("cp", "-a", "--link", from, to).Run(); err != nil {
		_ = os.RemoveAll(to)
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("copying the image store: %v: %s", err, out)
		}
	}
	// What is written in place is the copy's own.
	for _, name := range []string{"index.json", "lock", "uses", "waits", "adding", "unfinished"} {
		if err := os.RemoveAll(filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(from, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(to, "index.json"), string(text))
}

// groups are the boxes that processes have on this machine, each with its number of
// processes.
type groups map[string]int

// all yields the names.
func (g groups) all(yield func(string) bool) {
	for name := range g {
		if !yield(name) {
			return
		}
	}
}

// nativeGroups finds the control groups whose owner is one of some processes, of
// sandboxes and those around them.
func nativeGroups(t *testing.T, pids ...int) groups {
	t.Helper()
	found := groups{}
	err := filepath.WalkDir("/sys/fs/cgroup", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // it has just gone
		}
		_, owned, ok := strings.Cut(name, "/securebench/")
		if !ok || !slices.ContainsFunc(pids, func(pid int) bool {
			owner, _, _ := strings.Cut(owned, "/")
			fields := strings.Split(owner, ".")
			return len(fields) > 3 && fields[3] == fmt.Sprint(pid)
		}) {
			return nil
		}
		text, _ := os.ReadFile(filepath.Join(name, "cgroup.procs"))
		found[owned] = max(found[owned], len(strings.Fields(string(text))))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// gone leaves out, of processes that have ended, those whose number is another one's by
// now, as it never is while a session has it: what has that number is not theirs.
func gone(pids []int) []int {
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return exists(fmt.Sprintf("/proc/%d", pid)) })
}

// orphans lists what is left of the sessions of processes that have ended.
func orphans(t *testing.T, leaders []int) []string {
	t.Helper()
	return sessions(t, gone(leaders))
}

// sessions lists the processes of sessions, leaders included.
func sessions(t *testing.T, leaders []int) (left []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, _ := os.ReadFile(name)
		i := strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text[max(i, 0):])) // ")", state, parent, group, session
		if i < 0 || len(fields) < 5 || fields[1] == "Z" {
			continue
		}
		if slices.ContainsFunc(leaders, func(pid int) bool { return fields[4] == fmt.Sprint(pid) }) {
			left = append(left, string(text[:i+1]))
		}
	}
	return left
}

// unfinished lists what is in folders that are empty when nothing runs: those of an
// image store, and for temporary files.
func unfinished(t *testing.T, store, tmp string) (names []string) {
	t.Helper()
	for _, pattern := range []string{filepath.Join(store, "unfinished", "*"), filepath.Join(store, "adding", "*"),
		filepath.Join(store, "overlays", "unfinished", "*"), filepath.Join(tmp, "*"), filepath.Join(tmp, ".*"), "/run/securebench/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

// nativeBystander runs a sandbox of this process.
func nativeBystander(t *testing.T) (look func() string) {
	t.Helper()
	e := enginetest.Native(t)
	b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Command: []string{"sh", "-c", "echo ready; exec sleep 100000"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = b.Run(ctx, sandbox.Streams{Stdout: closer(ready)})
	}()
	<-ready
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return func() string {
		select {
		case <-ended:
			return "ended"
		default:
		}
		var lines []string
		for name, processes := range nativeGroups(t, os.Getpid()) {
			if strings.Contains(name, "/") && processes > 0 {
				lines = append(lines, fmt.Sprint(name, " ", processes))
			}
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
}

// closer closes a channel at the first write.
type closer chan struct{}

func (c closer) Write(p []byte) (int, error) {
	select {
	case <-c:
	default:
		close(c)
	}
	return len(p), nil
}
