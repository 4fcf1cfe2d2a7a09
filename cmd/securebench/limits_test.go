package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A child of these scripts hits a limit, and they survive.
const (
	hogChild = `sleep 2; python3 -c "hoard = [bytearray(1 << 26) for _ in range(999)]" 2>/dev/null; sleep 0.5; `
	manyKids = `python3 -c "
import os, time
try:
    while True:
        if os.fork() == 0: time.sleep(3); os._exit(0)
except OSError: time.sleep(3)
"; `
	diskFull = `head -c 100000000 /dev/zero > big 2>/dev/null; `
)

// TestSurvivedLimits: only a limit that ends the command itself counts. The
// end of its children, or a full disk, explains a missing answer but does not
// invalidate one. The test does not run in parallel: engines poll for the
// process limit, and a busy machine polls late.
func TestSurvivedLimits(t *testing.T) {
	image := needEngine(t)
	dir := t.TempDir()
	type row struct{ script, outcome, reason string }
	rows := map[string]row{
		"oom-itself": {"echo it; sleep 2; exec python3 -c 'hoard = [bytearray(1 << 26) for _ in range(999)]'", "limit", "oom"},
		// A shell that exits with its child's status cannot be distinguished
		// from one that was killed.
		"oom-passed-on": {"echo it; " + hogChild + "exit 137", "limit", "oom"},
		"disk-moment":   {diskFull + "rm big; echo it; exit 1", "passed", ""},
		"none":          {"echo it; exit 1", "passed", ""},
	}
	for name, script := range map[string]string{"oom": hogChild, "pids_limit": manyKids, "disk_limit": diskFull} {
		for code := range 2 {
			end := fmt.Sprintf("exit %d", code)
			rows[fmt.Sprintf("%s-answer-%d", name, code)] = row{script + "echo it; " + end, "passed", ""}
			rows[fmt.Sprintf("%s-wrong-%d", name, code)] = row{script + "echo other; " + end, "failed", "wrong_answer"}
			// The limit on processes counts only if the engine notices.
			rows[fmt.Sprintf("%s-nothing-%d", name, code)] = row{strings.ReplaceAll(script, "sleep(3)", "sleep(8)") + end, "limit", name}
		}
	}
	var lines strings.Builder
	for id, r := range rows {
		b, err := json.Marshal(map[string]any{"id": id, "input": map[string]any{"question": "What is it?", "context": r.script},
			"eval": map[string]any{"accepted_answers": []string{"it"}}})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(b, '\n'))
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), lines.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: limits\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+image+"\n")
	write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: limits, output_dir: out, max_workers: 4}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
limits: {memory: 128MiB, disk: 16MiB, pids: 64}
harness:
  type: command
  config:
    timeout_seconds: 60
    command: ["sh", "-c", "eval \"$(python3 -c 'import json; print(json.load(open(\"task.json\"))[\"context\"])')\""]
`)
	if res := securebench(t, nil, "run", filepath.Join(dir, "tester.yaml"), "-q"); res.code != exitDone {
		t.Fatalf("exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	records := readRecords(t, filepath.Join(dir, "out", "candidates.jsonl"))
	for id, want := range rows {
		if got := records[id]; len(got) != 1 || got[0].Outcome != want.outcome || got[0].Reason != want.reason {
			t.Errorf("%s: got %+v, want %s/%s", id, got, want.outcome, want.reason)
		}
	}
}
