package nativetest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FirstProcess finds, among the sandboxes of a process that has a native engine, the
// one in which a command line contains some words, and returns its first process: 0
// if there is none yet. A signal to it disturbs the sandbox from outside.
func FirstProcess(engine int, words string) (int, error) {
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

// Kill kills a first process that [FirstProcess] has found.
func Kill(pid int) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
