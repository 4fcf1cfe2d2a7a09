package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplayOthersAnswers: the answers in another program's file are scored, unknown ids
// are named, what was cut off is counted, and a file of other tasks is refused.
func TestReplayOthersAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	replayPack(t, dir, 3, short)
	var lines strings.Builder
	for i, said := range []string{"it", "no", "it"} {
		fmt.Fprintf(&lines, `{"doc_id": %d, "doc": {}, "target": "it", "resps": [[%q]], "filtered_resps": ["x"], "filter": "none"}`+"\n", i+1, said)
	}
	write(t, filepath.Join(dir, "samples.jsonl"), lines.String())
	args := []string{"run", "replayed", "--agent", "replay:samples.jsonl"}
	if res := inDir(t, dir, append(args, "-o", "refused")...); res.code != exitConfig ||
		!strings.Contains(res.stderr, `matches no row of the pack: its tasks are "1", "2", "3", and the pack's begin with "t0" (name the column`) {
		t.Errorf("exit %d: %s", res.code, res.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "refused")); err == nil {
		t.Error("a run that was refused has a folder")
	}
	res := inDir(t, dir, append(args, "--replay-map", "id=t{doc_id}", "-o", "out")...)
	if res.code != exitDone || !strings.Contains(res.stdout, "passed=1") || !strings.Contains(res.stderr, `lines without a matching attempt: 1; they are for "t3"`) {
		t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	write(t, filepath.Join(dir, "cut.jsonl"), `{"task_id": "t0", "text": "it", "stop_reason": "length"}`)
	if res := inDir(t, dir, "run", "replayed", "--agent", "replay:cut.jsonl", "-o", "cut", "--fail-on", "truncated>1%"); res.code != exitFailOn {
		t.Errorf("exit %d: %s", res.code, res.stderr)
	}
	if res := inDir(t, dir, "reverify", "cut", "--pack", "replayed"); res.code != exitDone || !strings.Contains(res.stdout, " 0 different") {
		t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	for columns, want := range map[string]string{"id": "--replay-map: \"id\" names no column", "id=x,text": "names no column"} {
		if res := inDir(t, dir, append(args, "--replay-map", columns)...); res.code != exitUsage || !strings.Contains(res.stderr, want) {
			t.Errorf("%s: exit %d: %s", columns, res.code, res.stderr)
		}
	}
	if res := inDir(t, dir, "run", "replayed", "--agent", "oracle", "--replay-map", "id=x"); res.code != exitUsage || !strings.Contains(res.stderr, "--replay-map is for --agent replay:FILE") {
		t.Errorf("exit %d: %s", res.code, res.stderr)
	}
}
