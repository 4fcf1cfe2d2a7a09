package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// step is a block of a tutorial: commands, a file to save, or what the commands
// before it print.
type step struct {
	line           int
	language, file string
	text           string
}

var (
	saveAs   = regexp.MustCompile("^Save this as `([^`]+)`:$")
	listens  = regexp.MustCompile(`--listen 127\.0\.0\.1:([0-9]+) .*&\n$`)
	endsWith = regexp.MustCompile(`^(.*\S)\s+# exit code ([0-9]+)$`)
)

// steps reads a tutorial.
func steps(t *testing.T, path string) (all []step) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var open *step
	file, n := "", 0
	for line := range strings.Lines(string(text)) {
		n++
		language, fence := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "```")
		switch {
		case fence && open == nil:
			open = &step{line: n, language: language, file: file}
		case fence:
			all = append(all, *open)
			open, file = nil, ""
		case open != nil:
			open.text += line
		case strings.TrimSpace(line) != "":
			file = ""
			if m := saveAs.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				file = m[1]
			}
		}
	}
	return all
}

// checkout copies the packs and examples of this repository.
func checkout(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, part := range []string{"packs", "examples"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join("..", "..", part))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// follow does what a tutorial says, in a folder with a copy of this repository's packs
// and examples, and compares what it prints with what the tutorial says. "make build"
// and "make build image" stand for what the tests have done already.
func follow(t *testing.T, path string) {
	t.Helper()
	dir := checkout(t)
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	fmt.Fprintf(&script, "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nmake() { [ \"${1-}\" = build ]; mkdir -p bin; ln -s '%s' bin/securebench; }\n", program)
	all := steps(t, path)
	for _, s := range all {
		fmt.Fprintf(&script, "echo '=== %d'\n", s.line)
		switch {
		case s.file != "":
			fmt.Fprintf(&script, "mkdir -p \"$(dirname '%s')\"\ncat > '%s' <<'END OF THE BLOCK'\n%sEND OF THE BLOCK\n", s.file, s.file, s.text)
		case s.language == "sh":
			for line := range strings.Lines(s.text) {
				if m := endsWith.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
					line = fmt.Sprintf("set +e; %s; code=$?; set -e; [ $code = %s ] || { echo \"exit code $code\"; exit 99; }\n", m[1], m[2])
				}
				script.WriteString(line)
				if m := listens.FindStringSubmatch(line); m != nil { // people take longer to read on
					fmt.Fprintf(&script, "until (: >/dev/tcp/127.0.0.1/%s) 2>/dev/null; do kill -0 $!; sleep 0.1; done\n", m[1])
				}
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "SECUREBENCH_KEYS="+filepath.Join(dir, "keys"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out.String())
	}
	compareSteps(t, path, all, out.String())
}

// compareSteps compares what the commands of a tutorial printed with what it says:
// each line is a part of one that they printed.
func compareSteps(t *testing.T, path string, all []step, out string) {
	t.Helper()
	before, expected := "", 0
	for _, s := range all {
		_, printed, _ := strings.Cut(out, fmt.Sprintf("=== %d\n", s.line))
		printed, _, _ = strings.Cut(printed, "\n=== ")
		if s.language != "text" {
			before = printed
			continue
		}
		for line := range strings.Lines(s.text) {
			expected++
			if !strings.Contains(before, strings.TrimSpace(line)) {
				t.Errorf("%s:%d: %q is not in what was printed:\n%s", path, s.line, strings.TrimSpace(line), before)
			}
		}
	}
	if expected < 3 {
		t.Errorf("%s says of only %d lines that they are printed", path, expected)
	}
}

// TestOwnAgentTutorial follows docs/tutorials/own-agent.md as it is written, and then
// does what "make own-agent" does: both use the same port.
func TestOwnAgentTutorial(t *testing.T) {
	t.Parallel()
	needEngine(t)
	follow(t, filepath.Join("..", "..", "docs", "tutorials", "own-agent.md"))
	dir := checkout(t)
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("..", "..", "scripts", "own-agent.sh"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, program, engineOf(t))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "SECUREBENCH_KEYS="+filepath.Join(dir, "keys"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "total=20 verification=complete verified=20 passed=5 ") {
		t.Errorf("%v\n%s", err, out)
	}
}
