package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
)

// awaitPause is how long is waited before looking for a process again.
const awaitPause = 50 * time.Millisecond

// Await waits until a command line contains some words in the sandbox of a run and a
// role, and returns what kills the sandbox from outside. Native tells sandboxes of
// this process apart only by the words.
func Await(ctx context.Context, e sandbox.Engine, run, role, words string) (kill func() error, err error) {
	for {
		if builds(e) {
			id, err := containerOf(ctx, run, role, words)
			if err != nil || id != "" {
				return func() error { return killContainer(ctx, id) }, err
			}
		} else {
			pid, err := firstProcess(os.Getpid(), words)
			if err != nil || pid != 0 {
				return func() error { return killProcess(pid) }, err
			}
		}
		if err := attended.Pause(ctx, awaitPause); err != nil {
			return nil, fmt.Errorf("no %q runs in a sandbox: %w", words, err)
		}
	}
}

// containerOf finds the container of a run and a role in which a command line contains
// some words, and returns its id: "" if there is none yet.
func containerOf(ctx context.Context, run, role, words string) (string, error) {
	api, err := client.New(client.FromEnv)
	if err != nil {
		return "", fmt.Errorf("connecting to the engine: %w", err)
	}
	defer api.Close()
	list, err := api.ContainerList(ctx, client.ContainerListOptions{Filters: client.Filters{}.
		Add("label", "securebench.run="+run).Add("label", "securebench.role="+role)})
	if err != nil {
		return "", fmt.Errorf("listing containers: %w", err)
	}
	for _, found := range list.Items {
		top, err := api.ContainerTop(ctx, found.ID, client.ContainerTopOptions{})
		if err != nil {
			continue // it has not started, or has ended
		}
		if slices.ContainsFunc(top.Processes, func(p []string) bool { return strings.Contains(strings.Join(p, " "), words) }) {
			return found.ID, nil
		}
	}
	return "", nil
}

// killContainer kills a container from outside.
func killContainer(ctx context.Context, id string) error {
	api, err := client.New(client.FromEnv)
	if err != nil {
		return fmt.Errorf("connecting to the engine: %w", err)
	}
	defer api.Close()
	_, err = api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"})
	return err
}

// firstProcess finds, among the sandboxes of a process that has a native engine, the
// one in which a command line contains some words, and returns its first process: 0
// if there is none yet. A signal to it disturbs the sandbox from outside.
func firstProcess(engine int, words string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(strings.ReplaceAll(string(text), "\x00", " "), words) {
			continue // it may have ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return 0, err
		}
		if first := childOf(engine, pid); first != 0 {
			return first, nil
		}
	}
	return 0, nil
}

// childOf returns the ancestor of a process, or itself, that is a child of another
// process in a PID namespace of its own; 0 if it has none.
func childOf(parent, pid int) int {
	for pid > 1 {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			return 0
		}
		var above int
		inside := false
		for line := range strings.Lines(string(text)) {
			switch name, value, _ := strings.Cut(line, ":"); name {
			case "PPid":
				above, _ = strconv.Atoi(strings.TrimSpace(value)) // 0 ends the search
			case "NSpid":
				inside = len(strings.Fields(value)) > 1
			}
		}
		if above == parent && inside {
			return pid
		}
		pid = above
	}
	return 0
}

// killProcess kills a first process that firstProcess has found.
func killProcess(pid int) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
