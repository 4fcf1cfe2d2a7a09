package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tutorialStep is a block of shell commands of a tutorial, and the lines that it
// must print, in this order, among others.
type tutorialStep struct {
	line     int
	commands string
	prints   []string
}

// tutorialSteps reads a tutorial: blocks of "sh", each perhaps followed by a block
// of "text".
func tutorialSteps(t *testing.T, file string) (steps []tutorialStep) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	language, n := "", 0
	for line := range strings.Lines(string(text)) {
		n++
		if fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			if language = fence; fence == "sh" {
				steps = append(steps, tutorialStep{line: n + 1})
			}
			continue
		}
		switch language {
		case "sh":
			steps[len(steps)-1].commands += line
		case "text":
			steps[len(steps)-1].prints = append(steps[len(steps)-1].prints, strings.TrimSuffix(line, "\n"))
		}
	}
	if len(steps) < 3 {
		t.Fatalf("%s has only %d blocks of commands", file, len(steps))
	}
	return steps
}

// runTutorial runs the commands of a tutorial as they are written, in one shell, in
// a folder that looks like the repository after "make build". Where a line of a
// "text" block has "…", anything may stand.
func runTutorial(t *testing.T, file string, env ...string) {
	t.Helper()
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"packs": filepath.Join(root, "packs"), "examples": filepath.Join(root, "examples"), "bin/securebench": program} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	steps, mark := tutorialSteps(t, filepath.Join(root, file)), "step "+rand.Text()+"\n"
	var script strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&script, "printf '%%s' '%s'\n%s", mark, s.commands)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", "exec 2>&1\n"+script.String())
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "HOME="+dir, "NO_COLOR=1"), env...)
	out, err := cmd.Output()
	printed := strings.Split(string(out), mark)[1:]
	for i, got := range printed {
		if at := tutorialMissing(steps[i].prints, got); at != "" {
			t.Errorf("%s:%d: it does not print %q, but:\n%s", file, steps[i].line, at, got)
		}
	}
	if err != nil {
		t.Fatalf("%s: after the block at line %d: %v\n%s", file, steps[max(len(printed)-1, 0)].line, err, printed[len(printed)-1])
	}
	if len(printed) != len(steps) {
		t.Errorf("%d of %d blocks ran", len(printed), len(steps))
	}
}

// tutorialMissing returns the first of the lines that does not follow in the output,
// or "".
func tutorialMissing(want []string, output string) string {
	lines := strings.Split(output, "\n")
	for _, w := range want {
		form := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(w), "…", ".*") + "$")
		for len(lines) > 0 && !form.MatchString(lines[0]) {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return w
		}
		lines = lines[1:]
	}
	return ""
}

// TestTutorialCheckAScore runs the tutorial as it is written.
func TestTutorialCheckAScore(t *testing.T) {
	t.Parallel()
	if tutorialMissing([]string{"a", "b…c"}, "a\nx\nb 1 c\n") != "" || tutorialMissing([]string{"b", "a"}, "a\nb\n") != "a" {
		t.Fatal("the test finds nothing wrong with what is wrong")
	}
	runTutorial(t, "docs/tutorials/check-a-score.md", noDocker)
}
