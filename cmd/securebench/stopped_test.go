package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
	"securebench/internal/sampletest"
	"securebench/internal/sandbox/enginetest"
)

// The times of the tests of a stopped program, in seconds: an honest one needs a part of
// its limit, and the program stands still for longer than that.
const (
	stopNeeds  = 2
	stopLimit  = 10
	stopLength = 12
)

// TestStoppedParent: the program is stopped while agents or candidates run, until their
// limits have passed. Those that ended meanwhile, in their time, pass; the twin that
// never ends runs out of time all the same.
func TestStoppedParent(t *testing.T) {
	t.Parallel()
	where := []place{dockerPlace(t), {}}
	t.Run("find native", func(t *testing.T) {
		where[1] = place{engine: "native", image: enginetest.Image(t, enginetest.Native(t)).Ref, env: []string{"SECUREBENCH_IMAGES=" + enginetest.Images(t)}}
	})
	both := where[0].engine != "" && where[1].engine != ""
	for _, p := range where {
		if p.engine == "" {
			continue
		}
		for name, pack := range map[string]func(t *testing.T, dir, image, nap string) []string{"agents": stoppedAgents, "verification": stoppedCandidates} {
			t.Run(p.engine+"/"+name, func(t *testing.T) {
				t.Parallel()
				if both && (p.engine == "docker") == (name == "agents") {
					sampletest.Nightly(t, "this engine has the other stage, and the other engine this one")
				}
				dir, nap := t.TempDir(), fmt.Sprintf("%d.%06d%d", stopNeeds, os.Getpid(), time.Now().Nanosecond())
				args := append([]string{"run", "--engine=" + p.engine, "-o", "out", "-w", "4", "--progress", "plain"}, pack(t, dir, p.image, nap)...)
				run := background(t, dir, p.env, args...)
				awaittest.Until(t, "three honest sleepers", func() bool { return nappers(nap) >= 3 || !run.running() })
				if run.running() {
					stand(t, run, stopLength*time.Second)
				}
				if res := run.ended(t, hung); res.code != exitDone {
					t.Errorf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
				}
				for _, r := range entries(t, filepath.Join(dir, "out")) {
					want := "passed"
					if r.TaskID == "endless" {
						want = map[string]string{"agents": "agent_timeout", "verification": "verifier_timeout"}[name]
					}
					if string(r.Outcome) != want || len(r.Retries) > 0 {
						t.Errorf("%s: %s, want %s; tried again: %v", r.TaskID, r.Outcome, want, r.Retries)
					}
				}
				verified(t, filepath.Join(dir, "out"))
			})
		}
	}
}

// stand stops a process for a time.
func stand(t *testing.T, p *process, d time.Duration) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, p.Process.Pid, nil, unix.WSTOPPED, nil); err != nil {
		t.Fatalf("the run ended too soon: %v", err)
	}
	time.Sleep(d)
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// nappers counts the processes "sleep nap" of this machine.
func nappers(nap string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if b, _ := os.ReadFile(file); string(b) == "sleep\x00"+nap+"\x00" {
			n++
		}
	}
	return n
}

// stoppedAgents makes a run of three agents that need a part of their time, and one that
// never ends.
func stoppedAgents(t *testing.T, dir, image, nap string) (args []string) {
	t.Helper()
	var rows strings.Builder
	for _, id := range []string{"a", "b", "c", "endless"} {
		fmt.Fprintf(&rows, `{"id": %q, "input": {"question": %q}, "eval": {"accepted_answers": ["YES"]}}`+"\n", id, id)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: stopped\nversion: 1\ndefaults:\n  family: short_answer\n  environment: {image: "+image+"}\n")
	write(t, filepath.Join(dir, "tester.yaml"), fmt.Sprintf(`schema_version: "0.2"
run: {id: %q, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config:
    timeout_seconds: %d
    command: ["sh", "-c", "if grep -q endless task.json; then sleep 600; fi; sleep %s; echo YES"]
`, ownRun("stopped-agents"), stopLimit, nap))
	return []string{"tester.yaml"}
}

// stoppedCandidates makes a run of three candidates that need a part of their time, and
// one that never ends: programs that are called, and programs that read and write.
func stoppedCandidates(t *testing.T, dir, image, nap string) (args []string) {
	t.Helper()
	tests := map[string]any{"source": "inline", "code": "assert f(1) == 2\n", "timeout_seconds": stopLimit}
	cases := map[string]any{"source": "cases", "compare": "whitespace", "command": []string{"python3", "candidate.py"}, "timeout_seconds": 2 * stopLimit, "case_seconds": stopLimit,
		"cases": []any{map[string]any{"expect": map[string]any{"stdout": "5\n"}}}}
	var rows, replies strings.Builder
	add := func(id string, tests map[string]any, code string) {
		row, err := json.Marshal(map[string]any{"id": id, "input": map[string]any{"prompt": "Write f.", "language": "python"}, "eval": map[string]any{"tests": tests}})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := json.Marshal(map[string]any{"task_id": id, "text": code})
		if err != nil {
			t.Fatal(err)
		}
		rows.WriteString(string(row) + "\n")
		replies.WriteString(string(reply) + "\n")
	}
	sleep := fmt.Sprintf("import subprocess\ndef f(x):\n    subprocess.run(['sleep', '%s'])\n    return x + 1\n", nap)
	add("a", tests, sleep)
	add("b", tests, sleep)
	add("c", cases, sleep+"print(f(4))\n")
	add("endless", tests, "def f(x):\n    while True: pass\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "replies.jsonl"), replies.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: stopped\nversion: 1\ndefaults:\n  family: code_completion\n  environment: {image: "+image+"}\n")
	return []string{".", "--agent", "replay:replies.jsonl"}
}
