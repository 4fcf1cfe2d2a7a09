package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/awaittest"
)

// TestAssetChangesUnderTheRun: an asset that is replaced during the run,
// through a hard link from outside the pack, reaches no agent. Only its task
// fails, without a retry; the run can be verified and its verdicts derived
// again.
func TestAssetChangesUnderTheRun(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir, runID := t.TempDir(), ownRun("changed-asset")
	var rows strings.Builder
	for i := range 5 {
		assets := ""
		if i == 4 {
			assets = `, "assets": [{"path": "a"}]`
		}
		fmt.Fprintf(&rows, `{"id": "t%d", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}%s}`+"\n", i, assets)
	}
	if err := os.Mkdir(filepath.Join(dir, "assets"), 0o755); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(dir, "outside")
	write(t, outside, "honest")
	if err := os.Link(outside, filepath.Join(dir, "assets/a")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: p\nversion: 1\ndefaults: {family: short_answer, environment: {image: \""+image+"\"}}\n")
	write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: `+runID+`, output_dir: my runs/out, max_workers: 1}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness: {type: command, config: {command: ["sh", "-c", "sleep 1; test -e a && exit 1; echo 4"]}}
`)
	runs := filepath.Join(dir, "my runs")
	cmd := command(t, nil, "run", filepath.Join(dir, "tester.yaml"), "--progress", "plain")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaittest.Until(t, "the first record", func() bool { return recordedLines(runs) > 0 })
	write(t, outside, "EVIL")
	_ = cmd.Wait() // the exit code is looked at below
	if code := cmd.ProcessState.ExitCode(); code != exitPack || !strings.Contains(stderr.String(), "1 attempt could not be made because of a fault in the pack: see failure_message in \""+runs+"/out/candidates.jsonl\"\n") ||
		strings.Contains(stderr.String(), "RETRY") {
		t.Errorf("exit %d, want %d: %s", code, exitPack, stderr.String())
	}
	data, err := os.ReadFile(filepath.Join(runs, "out", "candidates.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), `"outcome": "passed"`); n != 4 {
		t.Errorf("%d passed, want 4", n)
	}
	if !strings.Contains(string(data), `"failure_reason": "pack"`) || !strings.Contains(string(data), "the pack's files changed since it was loaded: a") {
		t.Errorf("the records don't blame the pack:\n%s", data)
	}
	write(t, outside, "honest")
	for _, args := range [][]string{{"verify", filepath.Join(runs, "out")}, {"reverify", filepath.Join(runs, "out"), "--pack", dir}} {
		if res := securebench(t, nil, args...); res.code != exitDone {
			t.Errorf("%v: exit %d: %s%s", args, res.code, res.stdout, res.stderr)
		}
	}
	if n := left(t, runID); n != 0 {
		t.Errorf("%d objects are left on the engine", n)
	}
}
