package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/pipeline/record"
)

// TestRowsBeyondRecords: a row whose record could not be written, or that
// cannot be read, is refused by name before the first task. The most that a
// row may hold fits into a record.
func TestRowsBeyondRecords(t *testing.T) {
	t.Parallel()
	values := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%s%08d":%q`, strings.Repeat("\U0001f389", 30), i, strings.Repeat("\u00e9", 100))
		}
		return `{"id":"wide","family":"browser_task","input":{"prompt":"x"` + b.String() + `}}`
	}
	tests := []struct {
		name, row, want string
	}{
		{"4096 values", values(4095), ""},
		{"4097 values", values(4096), `pack/tasks.jsonl:2:1: task 'wide' (browser_task) has 4097 values in input and eval, more than 4096: each is listed in the task's record (combine them into one list or object)`},
		{"27 MB", `{"id":"long","family":"short_answer","input":{"question":"` + strings.Repeat("x", 27<<20) + `"},"eval":{"accepted_answers":["4"]}}`,
			"pack/tasks.jsonl:2: the row is longer than 16777216 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pack")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "manifest.yaml"), "id: p\nversion: 1\n")
			write(t, filepath.Join(dir, "tasks.jsonl"),
				`{"id":"ok","family":"short_answer","input":{"question":"2+2?"},"eval":{"accepted_answers":["4"]}}`+"\n"+tt.row+"\n")
			out := filepath.Join(t.TempDir(), "out")
			check := securebench(t, nil, "pack", "check", dir)
			run := securebench(t, nil, "run", dir, "--agent", "oracle", "-o", out, "-q")
			if tt.want == "" {
				if check.code != 0 || run.code != 0 {
					t.Fatalf("exits %d and %d: %s%s", check.code, run.code, check.stderr, run.stderr)
				}
				info, err := os.Stat(filepath.Join(out, record.LinesName))
				if err != nil || info.Size() > record.MaxLine/2 {
					t.Errorf("the records have %v bytes, %v", info, err)
				}
				return
			}
			for _, got := range []outcome{check, run} {
				if got.code != exitPack || !strings.Contains(got.stderr, tt.want) {
					t.Errorf("exit %d: %.300s\nwant %s", got.code, got.stderr, tt.want)
				}
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("the output directory was made")
			}
		})
	}
}

// TestCtrlCWhileReadingAssets: the first Ctrl-C ends a pack check and a run
// that read a large asset.
func TestCtrlCWhileReadingAssets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "assets"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "manifest.yaml"), "id: p\nversion: 1\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id":"ok","family":"short_answer","input":{"question":"2+2?"},"eval":{"accepted_answers":["4"]}}`+"\n")
	big := filepath.Join(dir, "assets/big")
	write(t, big, "")
	if err := os.Truncate(big, 15<<30); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	for _, args := range [][]string{{"pack", "check", dir}, {"validate", dir}, {"run", dir, "--agent", "oracle"}} {
		cmd := command(t, nil, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaittest.Until(t, "the asset to be read", func() bool { return opened(cmd.Process.Pid, big) })
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit code is looked at below
		// The time of the processor does not depend on how busy the machine is.
		if used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); used > 5*time.Second {
			t.Errorf("%v: it needed %v to stop", args, used)
		}
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !strings.Contains(stderr.String(), "interrupted while reading the pack") {
			t.Errorf("%v: exit %d, want %d: %s", args, code, exitInterrupted, stderr.String())
		}
	}
}

// opened reports whether a process has a file open.
func opened(pid int, file string) bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is good
	return slices.ContainsFunc(fds, func(fd string) bool {
		to, err := os.Readlink(fd)
		return err == nil && to == file
	})
}
