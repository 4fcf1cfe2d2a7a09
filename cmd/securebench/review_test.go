package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSignsOfLife: commands that verify one task after the other say so as a run does.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: signs\nversion: 1\ndefaults: {family: short_answer, environment: {image: none}}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "one", "input": {"question": "1"}, "eval": {"accepted_answers": ["a"]}}
{"id": "two", "input": {"question": "2"}, "eval": {"accepted_answers": ["b"]}}
`)
	write(t, filepath.Join(dir, "replies.jsonl"), `{"task_id": "one", "text": "a"}
{"task_id": "two", "text": "c"}
`)
	if res := inDir(t, dir, "run", ".", "--agent", "replay:replies.jsonl", "-o", "out"); res.code != exitDone {
		t.Fatalf("exit %d\n%s", res.code, res.stderr)
	}
	for name, args := range map[string][]string{"validate": {"validate", "."}, "reverify": {"reverify", "out", "--pack", ".", "--any-signer"}} {
		word := map[string]string{"validate": "PASS", "reverify": "EQUAL"}[name]
		for mode, want := range map[string][]string{
			"auto":  {"[1/2] ", "[2/2] ", word + " one", word + " two"},
			"plain": {"[1/2] ", "[2/2] ", word + " one", word + " two"},
			"json":  {`"event":"task_start"`, `"event":"task_done"`, `"total":2`},
			"none":  nil,
		} {
			res := inDir(t, dir, append(args, "--progress", mode)...)
			if res.code != exitDone {
				t.Errorf("%s, %s: exit %d\n%s", name, mode, res.code, res.stderr)
			}
			for _, w := range want {
				if !strings.Contains(res.stderr, w) {
					t.Errorf("%s, %s: it does not say %q:\n%s", name, mode, w, res.stderr)
				}
			}
			if mode == "none" && strings.Contains(res.stderr, "one") {
				t.Errorf("%s: it says\n%s", name, res.stderr)
			}
		}
		if res := inDir(t, dir, append(args, "--progress", "loud")...); res.code != exitUsage || !strings.Contains(res.stderr, "unknown progress mode") {
			t.Errorf("%s: exit %d\n%s", name, res.code, res.stderr)
		}
	}
}
