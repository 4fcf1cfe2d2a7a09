package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGrantedCapabilities runs two agents as root. Both change the owner of a
// file; only the one whose row asks for the capability that the operator
// grants can, and its record says so.
func TestGrantedCapabilities(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: granted\nversion: 1\ndefaults:\n  family: short_answer\n  environment: {image: "+image+", user: '0'}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "asks", "environment": {"capabilities": ["CHOWN"]}, "input": {"question": "What is it?"}, "eval": {"accepted_answers": ["it"]}}
{"id": "does not ask", "input": {"question": "What is it?"}, "eval": {"accepted_answers": ["it"]}}
`)
	write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: granted, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
sandbox: {capabilities: [CHOWN, SETUID]}
harness: {type: command, config: {command: "touch f && chown 1:1 f && grep CapEff /proc/self/status >&2 && echo it"}}
`)
	if res := securebench(t, nil, "run", filepath.Join(dir, "tester.yaml"), "-q"); res.code != exitDone {
		t.Fatalf("exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	const chownAlone = "0000000000000001" // a row gets what it asks for, not all that is granted
	lines, _ := wholeLines(t, filepath.Join(dir, "out"))
	if len(lines) != 2 {
		t.Fatalf("%d records, want 2", len(lines))
	}
	for _, l := range lines {
		asks := l.TaskID == "asks"
		granted := strings.Count(strings.Join(l.Labels, " "), "capability_")
		if l.Passed != asks || slices.Contains(l.Labels, "capability_chown") != asks || granted > 1 {
			t.Errorf("%s: passed %t with labels %v", l.TaskID, l.Passed, l.Labels)
		}
		if asks && !strings.Contains(l.ProducerStderr, chownAlone) {
			t.Errorf("%s: the agent had %q", l.TaskID, l.ProducerStderr)
		}
	}
}
