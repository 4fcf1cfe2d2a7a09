package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/awaittest"
)

// marked makes an image that holds a word in /marker.
func marked(t *testing.T, base, word string) (id string) {
	t.Helper()
	container := dockerOutput(t, "create", base, "true")
	defer dockerOutput(t, "rm", container)
	file := filepath.Join(t.TempDir(), "marker")
	write(t, file, word+"\n")
	dockerOutput(t, "cp", file, container+":/marker")
	id = dockerOutput(t, "commit", container)
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", id).Run() })
	return id
}

// TestMovedTag (D15): a tag that moves in the middle of a run changes nothing
// in it; a resume refuses it, or runs again what it affects. A runner that
// names images by tag would use both.
func TestMovedTag(t *testing.T) {
	t.Parallel()
	base := needDocker(t)
	tag := "securebench-moved-tag-test:" + ownRun("1")
	first, second := marked(t, base, "one"), marked(t, base, "two")
	move := func(to string) { dockerOutput(t, "tag", to, tag) }
	move(first)
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", tag).Run() })
	dir := t.TempDir()
	var rows strings.Builder
	for i := range 3 {
		fmt.Fprintf(&rows, `{"id": "t%d", "input": {"question": "Which?"}, "eval": {"accepted_answers": ["one"]}}`+"\n", i)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: moved\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+tag+"\n")
	write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: moved, output_dir: out, max_workers: 1}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config: {command: [sh, -c, "sleep 2; cat /marker"]}
`)
	tester, lines := filepath.Join(dir, "tester.yaml"), filepath.Join(dir, "out", "candidates.jsonl")
	done := make(chan outcome, 1)
	go func() { done <- securebench(t, nil, "run", tester, "-q") }()
	awaittest.Until(t, "the first record", func() bool {
		data, err := os.ReadFile(lines)
		return err == nil && strings.Contains(string(data), "\n")
	})
	move(second)
	if got := dockerOutput(t, "run", "--rm", tag, "cat", "/marker"); got != "two" {
		t.Fatalf("by its tag the image says %q: the test shows nothing", got)
	}
	if res := <-done; res.code != 0 || !strings.Contains(res.stdout, "total=3 verification=complete verified=3 passed=3") {
		t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	res := securebench(t, nil, "run", tester, "-q", "--resume")
	if want := fmt.Sprintf("image %s: was %s, is %s", tag, first, second); res.code != exitRefused || !strings.Contains(res.stderr, want) {
		t.Errorf("exit %d, want %d and %q:\n%s", res.code, exitRefused, want, res.stderr)
	}
	res = securebench(t, nil, "run", tester, "-q", "--resume=rerun-changed", "--workers", "3")
	if res.code != 0 || !strings.Contains(res.stdout, "total=3 verification=complete verified=3 passed=0") {
		t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	if res := securebench(t, nil, "verify", filepath.Join(dir, "out")); res.code != 0 {
		t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
}
